"""How often a check says that reports contradict a model: models that are right, learned, and wrong.

    python -m studies tables.contradicted -o contradicted.json

Populations are latent classes of five columns (three classes by coins of their own, 2 to 8 codes), so
that a fit's model can be right. A check looks at five columns and ten pairs of them by Holm's procedure,
and of a model that is right it should contradict any in at most one check of twenty. Rows count checks
that did:

- `the population itself`, whatever was learned of it: the test's own size.
- `learned`, by the reports that the model was learned from, as a check does: it follows some of their
  noise, so that alarms are rarer.
- `learned, other reports`: as many that the fit has not seen, where the model errs by what a fit errs.
- `independent columns`: the population's own columns, without dependence: power. `apart` is the mean
  total variation of its pairs from the population's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from privot.evaluation import total_variation
from privot.evaluation.estimates import CodeReports, contradicted_by, residuals, sampler_of
from privot.local import fit
from privot.local.classes.mixture import LatentClasses
from privot.local.releases import Releases
from privot.randomizer import Randomizer, Release
from privot.schema import Schema
from studies.common.rows import gather

_SIZES = (3, 4, 6, 2, 8)
_CLASSES = 3
_PAIRS = list(combinations(range(len(_SIZES)), 2))
SCHEMA = Schema.from_dict(
    {
        "columns": {
            f"c{i}": {"kind": "categorical", "categories": [str(code) for code in range(size)]}
            for i, size in enumerate(_SIZES)
        }
    }
)


def population(seed: int) -> LatentClasses:
    """Three classes, with probabilities of codes that differ much among them."""
    rng = np.random.default_rng(seed)
    tables = tuple(rng.dirichlet(np.full(size, 0.7), _CLASSES).T for size in _SIZES)
    return LatentClasses(rng.dirichlet(np.full(_CLASSES, 3.0)), tables)


def independent_columns(law: LatentClasses) -> LatentClasses:
    """The same columns, without dependence."""
    return LatentClasses(np.ones(1), tuple(t @ law.weights[:, None] for t in law.probabilities))


def _report(randomizer: Randomizer, law: LatentClasses, people: int, seed: int) -> Release:
    rng = np.random.default_rng([seed, people])
    table: dict[str, Any] = {}
    codes = law.sample(people, rng)
    for index, (name, column) in enumerate(SCHEMA.coded.items()):
        table |= column.decode_codes(name, codes[:, index], rng)
    return randomizer.privatize(table)


def measure(epsilon: float, people: int, releases: int) -> Iterator[dict[str, Any]]:
    """Rows of one ε and number of people, each release of a population of its own."""
    randomizer = Randomizer.calibrate(SCHEMA, epsilon)
    alarms: dict[str, list[bool]] = {}
    apart: dict[str, list[float]] = {}
    for seed in range(releases):
        law = population(seed)
        release, other = (_report(randomizer, law, people, s) for s in (seed, releases + seed))
        learned = sampler_of(fit(release, seed=seed)).classes
        judged = {
            "the population itself": (law, release),
            "learned": (learned, release),
            "learned, other reports": (learned, other),
            "independent columns": (independent_columns(law), release),
        }
        for name, (model, reports) in judged.items():
            own = residuals(CodeReports.of(Releases.of(reports)), model)
            p_values = {columns: residual.p_value for columns, residual in own.items()}
            alarms.setdefault(name, []).append(bool(contradicted_by(p_values)))
            apart.setdefault(name, []).append(_apart(model, law))
    for name, found in alarms.items():
        yield {
            "epsilon": epsilon, "people": people, "model": name, "checks": len(found),
            "contradicted": sum(found), "apart": round(float(np.mean(apart[name])), 4),
        }  # fmt: skip


def _apart(model: LatentClasses, law: LatentClasses) -> float:
    every: Sequence[float] = [total_variation(model.marginal(p), law.marginal(p)) for p in _PAIRS]
    return float(np.mean(every))


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--epsilons", nargs="+", type=float, default=[2.0, 4.0, 8.0])
    parser.add_argument("--people", nargs="+", type=int, default=[3_000, 10_000])
    parser.add_argument("--releases", type=int, default=40)
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every ε and number of people."""
    rows = (
        row
        for epsilon in chosen.epsilons
        for people in chosen.people
        for row in measure(epsilon, people, chosen.releases)
    )
    gather(rows, chosen.output)

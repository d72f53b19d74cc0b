"""A population that is known exactly, and how fast the fit approaches it as more people report.

    python -m studies tables.bayesian_network -o network.json

Ten mixed columns (numbers in bins, categories, booleans) of a Bayesian network whose 172 800 cells are
enumerated. n people report with ε = 4; the **excess** is the mean log-likelihood of 200 000 other
people's reports under the truth, less that under the model: the Kullback-Leibler divergence of the two
distributions of reports, which is 0 only for a model as good as the truth. Beside it, the total
variation of the model's pairs of columns from the truth's.

Statistics promises an excess between 1/n (a model of few enough parameters) and n^(−1/2) (a model that
has to grow), down to what latent classes cannot express.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privot.evaluation import total_variation
from privot.local import fit
from privot.local.classes.counts import ReportGroup, report_groups
from privot.local.classes.mixture import LatentClassSampler
from privot.randomizer import Randomizer, count
from privot.schema import Schema
from studies.common.rows import gather

HELD_OUT = 200_000
_STRENGTH = 1.3
# Columns with their parents; a column's table is a softmax of random scores of parents and pairs.
_PARENTS: dict[str, tuple[str, ...]] = {
    "region": (),
    "age": ("region",),
    "education": ("region", "age"),
    "income": ("education", "age"),
    "smokes": ("education",),
    "exercise": ("smokes", "age"),
    "weight": ("exercise", "age"),
    "ill": ("weight", "smokes"),
    "insured": ("income",),
    "visits": ("ill", "insured"),
}
SCHEMA = Schema.from_dict(
    {
        "columns": {
            "region": {"kind": "categorical", "categories": ["N", "E", "S"]},
            "age": {"kind": "numeric", "bounds": [18, 89], "integer": True, "bins": 6},
            "education": {"kind": "categorical", "categories": ["none", "school", "trade", "degree"]},
            "income": {"kind": "numeric", "bounds": [0, 100_000], "bins": 5},
            "smokes": {"kind": "boolean"},
            "exercise": {"kind": "categorical", "categories": ["never", "weekly", "daily"]},
            "weight": {"kind": "numeric", "bounds": [40, 140], "bins": 5},
            "ill": {"kind": "boolean"},
            "insured": {"kind": "boolean"},
            "visits": {"kind": "numeric", "bounds": [0, 3], "integer": True},
        }
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Population:
    """The joint distribution of all columns, one axis each."""

    joint: np.ndarray

    @classmethod
    def of_network(cls, seed: int = 0) -> Population:
        """The network's tables multiplied out; the seed chooses the tables."""
        rng = np.random.default_rng(seed)
        names = list(SCHEMA.coded)
        sizes = [column.alphabet.size for column in SCHEMA.coded.values()]
        joint = np.ones(sizes)
        for index, name in enumerate(names):
            parents = [names.index(parent) for parent in _PARENTS[name]]
            scores = rng.normal(0, _STRENGTH, [*(sizes[p] for p in parents), sizes[index]])
            table = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
            axes = [*parents, index]
            shape = [sizes[i] if i in axes else 1 for i in range(len(sizes))]
            joint = joint * np.transpose(table, np.argsort(axes)).reshape(shape)
        return cls(joint)

    def marginal(self, columns: Sequence[int]) -> np.ndarray:
        """The joint distribution of a few columns, in increasing order."""
        rest = tuple(i for i in range(self.joint.ndim) if i not in columns)
        return self.joint.sum(axis=rest)

    def draw(self, num_people: int, rng: np.random.Generator) -> pa.Table:
        """Records of people."""
        cells = rng.choice(self.joint.size, num_people, p=self.joint.ravel())
        codes = np.unravel_index(cells, self.joint.shape)
        columns: dict[str, pa.Array] = {}
        for (name, column), code in zip(SCHEMA.coded.items(), codes, strict=True):
            columns |= column.decode_codes(name, code, rng)
        return pa.table(columns)

    def log_likelihood(self, groups: Sequence[ReportGroup]) -> np.ndarray:
        """$\\ln f$ of every joint report, groups one after the other, up to the answers' constants."""
        parts = []
        for group in groups:
            (factor,) = group.factors
            supported = factor.likelihood @ self.marginal(factor.queries).ravel()
            parts.append(np.log1p((factor.ratio - 1) * supported)[group.answers[:, 0]])
        return np.concatenate(parts)


def measure(num_people: int, epsilon: float, seed: int) -> dict[str, Any]:
    """Excess of a fit to this many people's reports, and its error of pairs."""
    truth = Population.of_network()
    rng = np.random.default_rng([seed, num_people])
    randomizer = Randomizer.calibrate(SCHEMA, epsilon)
    release = randomizer.privatize(truth.draw(num_people, rng))
    started = time.perf_counter()
    model = fit(release, seed=seed)
    seconds = time.perf_counter() - started
    assert isinstance(model.sampler, LatentClassSampler)
    classes = model.sampler.classes
    groups = report_groups(count(randomizer.privatize(truth.draw(HELD_OUT, rng))))
    people = np.concatenate([group.counts for group in groups])
    gaps = truth.log_likelihood(groups) - classes.log_likelihood(groups)
    mean = float(people @ gaps / HELD_OUT)
    pairs = [
        total_variation(classes.marginal(pair).ravel(), truth.marginal(pair).ravel())
        for pair in combinations(range(truth.joint.ndim), 2)
    ]
    return {
        "people": num_people,
        "epsilon": epsilon,
        "seed": seed,
        "excess": mean,
        "standard_error": float(np.sqrt(people @ (gaps - mean) ** 2) / HELD_OUT),
        "two_way": float(np.mean(pairs)),
        "classes": classes.num_classes,
        "seconds": round(seconds, 1),
    }


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "--people", nargs="+", type=int, default=[10_000, 30_000, 100_000, 300_000, 1_000_000]
    )
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every number of people and seed."""
    rows = (
        measure(num_people, chosen.epsilon, seed)
        for num_people in chosen.people
        for seed in chosen.seeds
    )
    gather(rows, chosen.output)

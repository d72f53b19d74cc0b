"""Whether 90 % intervals of reports alone hold in nine cases of ten, and what a check says is so.

    python -m studies tables.coverage -o coverage.json

Populations are Bayesian networks with tables of their own seed (`tables.bayesian_network`), known
exactly; of each, people are drawn and report afresh, several times. Rows count the intervals that hold
the population's value, by kind of statistic: shares of single columns and of pairs of columns, means,
quantiles and correlations of numbers. Quantiles of integers are integers, and counted apart: an interval
of one or two of them holds more often than it says. The model, which tells these where numbers are
within their bins, was learned from the first release of each population. Widths are in standard
deviations, of numbers.

Each of these first models is checked, too: `error` rows have the two-way and one-way errors to expect
beside those that were made, and how often a check said that the reports contradict a model of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from privot.evaluation import check, total_variation
from privot.evaluation.estimates import CodeReports, Interval, estimate, sampler_of
from privot.evaluation.number_checks import (
    LEVELS,
    NumberSample,
    check_correlation,
    check_number,
)
from privot.local import LocalModel, fit
from privot.local.releases import Releases
from privot.randomizer import Randomizer
from privot.schema.columns.alphabet import Bins
from studies.common.rows import gather
from studies.tables.bayesian_network import SCHEMA, Population

_TRUTH = 1_000_000  # people whose numbers are the population's
_NUMBERS = [name for name, column in SCHEMA.coded.items() if column.is_number]


class Tally:
    """How many intervals held, by kind of statistic."""

    def __init__(self) -> None:
        self.held: dict[str, list[bool]] = {}
        self.widths: dict[str, list[float]] = {}

    def add(self, kind: str, interval: Interval, truth: float, unit: float = 1.0) -> None:
        """Count one, its width in units."""
        self.held.setdefault(kind, []).append(interval.holds(truth))
        self.widths.setdefault(kind, []).append((interval.high - interval.low) / 2 / unit)

    def rows(self, **setting: Any) -> Iterator[dict[str, Any]]:
        """One a kind."""
        for kind, held in self.held.items():
            yield {
                "statistic": kind, **setting, "intervals": len(held),
                "held": round(float(np.mean(held)), 4),
                "half_width": round(float(np.mean(self.widths[kind])), 4),
            }  # fmt: skip


def measure(
    people: int, epsilon: float, populations: int, releases: int
) -> Iterator[dict[str, Any]]:
    """Rows of one number of people and ε."""
    tally = Tally()
    errors: list[tuple[float, float, float, float, bool]] = []
    randomizer = Randomizer.calibrate(SCHEMA, epsilon)
    for seed in range(populations):
        population = Population.of_network(seed)
        rng = np.random.default_rng([seed, people])
        everybody = population.draw(_TRUTH, rng)
        model = None
        for _ in range(releases):
            release = randomizer.privatize(population.draw(people, rng))
            if model is None:
                model = fit(release, seed=seed)
                told = check(model, release, seed=seed)
                made = [_error(model, population, several) for several in (1, 2)]
                alarm = any(each.contradicted for each in told.columns)
                alarm |= any(each.contradicted for each in told.pairs)
                assert told.two_way is not None  # of ten columns
                errors.append((told.one_way, made[0], told.two_way, made[1], alarm))
                drawn = _drawn(model.sample(100_000, seed=0))
            _count(tally, CodeReports.of(Releases.of(release)), population, drawn, everybody)
    yield from tally.rows(epsilon=epsilon, people=people)
    means = np.mean([error[:4] for error in errors], axis=0)
    for name, expected, realized in (("one-way error", *means[:2]), ("two-way error", *means[2:4])):
        yield {
            "statistic": name, "epsilon": epsilon, "people": people, "checks": len(errors),
            "expected": round(float(expected), 4), "made": round(float(realized), 4),
            "contradicted": sum(error[4] for error in errors),
        }  # fmt: skip


def _error(model: LocalModel, population: Population, several: int) -> float:
    law = sampler_of(model).classes
    ways = combinations(range(population.joint.ndim), several)
    return float(np.mean([total_variation(law.marginal(w), population.marginal(w)) for w in ways]))


def _drawn(table: pa.Table) -> dict[int, NumberSample]:
    found = {}
    for index, (name, column) in enumerate(SCHEMA.coded.items()):
        if name in _NUMBERS:
            numbers, codes = column.accept(name, table), column.encode_codes(name, table)
            bins = cast("Bins", column.alphabet)
            even = bins.decode(codes, np.random.default_rng(0))
            found[index] = NumberSample(numbers, codes, bins.centers, even)
    return found


def _count(
    tally: Tally,
    reports: CodeReports,
    truth: Population,
    drawn: dict[int, NumberSample],
    everybody: pa.Table,
) -> None:
    for (questions,) in reports.by_columns.values():
        told, shares = estimate(reports, questions), truth.marginal(questions).ravel()
        kind = "share of a column" if len(questions) == 1 else "share of a pair"
        for mean, variance, true in zip(told.mean, told.variance, shares, strict=True):
            tally.add(kind, Interval.of(mean, variance, 0.0, 1.0), true)
    integer = [bool(getattr(column, "integer", False)) for column in SCHEMA.coded.values()]
    values = {q: everybody.column(list(SCHEMA.coded)[q]).to_numpy() for q in drawn}
    for question, own in drawn.items():
        number = check_number(reports, {question: own}, 0.0, 0.0)
        unit = float(values[question].std())
        tally.add("mean", number.mean.reports, float(values[question].mean()), unit)
        kind = "quantile of integers" if integer[question] else "quantile"
        for level, quantile in zip(LEVELS, number.quantiles, strict=True):
            true = float(np.quantile(values[question], level, method="inverted_cdf"))
            tally.add(kind, quantile.reports, true, unit)
    for pair in combinations(drawn, 2):
        found = check_correlation(reports, [pair], drawn)
        assert found is not None
        true = float(np.corrcoef(values[pair[0]], values[pair[1]])[0, 1])
        tally.add("correlation", found.reports, true)


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--epsilons", nargs="+", type=float, default=[2.0, 4.0, 8.0])
    parser.add_argument("--people", nargs="+", type=int, default=[5_000, 40_000])
    parser.add_argument("--populations", type=int, default=8)
    parser.add_argument("--releases", type=int, default=6, help="of each population")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Every ε and number of people."""
    rows = (
        row
        for epsilon in chosen.epsilons
        for people in chosen.people
        for row in measure(people, epsilon, chosen.populations, chosen.releases)
    )
    gather(rows, chosen.output)

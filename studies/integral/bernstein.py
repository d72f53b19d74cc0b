r"""The Bernstein mechanism at its best: degree, bandwidth and positivity searched past every border.

    python -m studies integral.bernstein three --seeds 0 1 2 3 -o three_bernstein.json

For each ε and calibration of the noise, every pair of a degree and a bandwidth, each a factor of two
from the next, is released for every seed with either free way to mend what is negative
(`studies.rivals.bernstein`), and the settings of least mean NLL over the seeds on the **truth** are
kept: a favor that no user could do it. `border` says whether they lie at the end of what was searched;
a search that ends there has not found the best.

With `--cross-validated` it is used as in the experiments of Husain et al.: the bandwidth has the best
likelihood of records held out, in five folds, and what is negative is shifted and scaled away. Both
look at raw records without paying, so that **its ε does not hold**. The degree, which the text at hand
leaves open, is still the best on the truth.

Records are those of `integral.curves`, and so are the rows. The noise has no seed. Kernel values are
computed once for all ε, and the releases of one degree are evaluated together.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from studies.common.densities import Array, Grid, negative_log_likelihood
from studies.common.rows import write_rows
from studies.integral.curves import NUM_RECORDS, records_of, row_of
from studies.integral.targets import TARGETS, Mixture
from studies.rivals.bernstein import (
    Calibration,
    Positivity,
    add_noise,
    density_of,
    kernel_values,
    sensitivity,
)

DEGREES = {
    1: (2, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240),
    2: (1, 2, 5, 10, 20, 40, 80, 160, 320, 640),
}
BANDWIDTHS = tuple(0.000625 * 2**i for i in range(10))
CALIBRATIONS: tuple[Calibration, ...] = ("published", "lattice")
POSITIVITIES: tuple[Positivity, ...] = ("polynomial", "clip")
_FOLDS, _HELD_OUT = 5, 500  # folds, and records held out in each whose likelihood is computed


class Settings(NamedTuple):
    """What has to be chosen without the records, and here is not."""

    degree: int
    bandwidth: float
    positivity: Positivity

    def __str__(self) -> str:
        return f"{self.degree}|{self.bandwidth:g}|{self.positivity}"


class Search:
    """The releases of one target's records, and the best of them so far.

    Args:
        target: a name of `studies.integral.targets`.
        epsilons: of one person's record.
        seeds: of records.
        cross_validated: the bandwidth by the records, and negative values shifted away.
    """

    def __init__(
        self,
        target: str,
        epsilons: Sequence[float],
        seeds: Sequence[int],
        cross_validated: bool = False,
    ) -> None:
        self.target, self.epsilons, self.seeds = target, epsilons, seeds
        self.mixtures: list[Mixture] = [TARGETS[target](seed) for seed in seeds]
        self.grid: Grid = self.mixtures[0].grid()
        self.truths = [mixture.density(self.grid) for mixture in self.mixtures]
        self.records = [records_of(target, seed) for seed in seeds]
        self.degrees = DEGREES[self.grid.dim]
        self.positivities: tuple[Positivity, ...] = POSITIVITIES
        self.bandwidths: list[tuple[float, ...]] = [(b,) * len(seeds) for b in BANDWIDTHS]
        self.calibrations, self.name = CALIBRATIONS, "Bernstein, {} noise"
        if cross_validated:
            self.positivities, self.calibrations = ("shift",), ("published",)
            self.bandwidths = [tuple(self.cross_validate(x) for x in self.records)]
            self.name = "Bernstein, cross-validated"
        self.best: dict[tuple[float, Calibration], tuple[float, Settings, list[Array]]] = {}

    def run(self) -> None:
        """Every pair, the degrees upward."""
        for degree, bandwidths in product(self.degrees, self.bandwidths):
            raw = [
                kernel_values(x, self.grid.lower, self.grid.upper, degree, bandwidth)
                for x, bandwidth in zip(self.records, bandwidths, strict=True)
            ]
            for epsilon, calibration in product(self.epsilons, self.calibrations):
                noisy = []
                for values, bandwidth in zip(raw, bandwidths, strict=True):
                    size = NUM_RECORDS, self.grid.dim, degree, bandwidth
                    noisy.append(add_noise(values, sensitivity(*size, calibration), epsilon))
                for positivity in self.positivities:
                    settings = Settings(degree, bandwidths[0], positivity)
                    self._judge(noisy, epsilon, calibration, settings)

    def cross_validate(self, records: Array) -> float:
        """The bandwidth, as a share of the box, with the best likelihood of records held out."""
        lower, upper = np.array(self.grid.lower), np.array(self.grid.upper)
        unit = (records - lower) / (upper - lower)
        losses = np.zeros(len(BANDWIDTHS))
        for fold in range(_FOLDS):
            held_out, others = (
                unit[fold::_FOLDS][:_HELD_OUT],
                np.delete(unit, slice(fold, None, _FOLDS), axis=0),
            )
            squares = ((held_out[:, None] - others) ** 2).sum(axis=2)
            for i, bandwidth in enumerate(BANDWIDTHS):
                kernels = np.exp(-squares / (2 * bandwidth**2)).mean(axis=1)
                height = (np.sqrt(2 * np.pi) * bandwidth) ** self.grid.dim
                losses[i] -= np.log(np.maximum(kernels / height, 1e-300)).mean()
        return BANDWIDTHS[int(np.argmin(losses))]

    def _judge(
        self,
        noisy: Sequence[Array],
        epsilon: float,
        calibration: Calibration,
        settings: Settings,
    ) -> None:
        """Keep these releases if their mean NLL is the least."""
        box = self.grid.lower, self.grid.upper
        models = [
            density_of(values, *box, epsilon, settings.positivity).density(self.grid.axes)
            for values in noisy
        ]
        pairs = zip(self.truths, models, strict=True)
        loss = float(np.mean([negative_log_likelihood(self.grid, *pair) for pair in pairs]))
        if loss < self.best.get((epsilon, calibration), (np.inf,))[0]:
            self.best[epsilon, calibration] = loss, settings, models

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row an ε, calibration and seed."""
        for (epsilon, calibration), (_, settings, models) in self.best.items():
            for i, (seed, model) in enumerate(zip(self.seeds, models, strict=True)):
                name = self.name.format(calibration)
                row = row_of(self.target, self.grid, self.truths[i], model)
                yield {
                    **row,
                    "epsilon": epsilon,
                    "seed": seed,
                    "method": name,
                    "settings": str(settings),
                    "border": self.at_border(settings),
                }

    def at_border(self, settings: Settings) -> bool:
        """Whether the search might have found better beyond its end; a degree of 1 is a true end."""
        lowest, highest = self.degrees[0], self.degrees[-1]
        low_end = settings.degree == lowest and lowest > 1
        ends = BANDWIDTHS[0], BANDWIDTHS[-1]
        return low_end or settings.degree == highest or settings.bandwidth in ends


def options(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("target", choices=list(TARGETS))
    parser.add_argument(
        "--epsilons", type=float, nargs="+", default=[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cross-validated", action="store_true", help="as Husain et al. did")
    parser.add_argument("-o", "--output", type=Path)


def run(chosen: argparse.Namespace) -> None:
    """Search, print what is best, and write it."""
    search = Search(chosen.target, chosen.epsilons, chosen.seeds, chosen.cross_validated)
    search.run()
    rows = list(search.rows())
    for row in rows:
        print(json.dumps(row, ensure_ascii=False))
    if chosen.output:
        write_rows(chosen.output, rows)

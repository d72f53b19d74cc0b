r"""Rehearsal and goodness of fit: a model's expected errors, and whether reports contradict it.

**Rehearsal** (`rehearse`) is a parametric bootstrap. Reports of people sampled from the model are
simulated, and a second model is fitted to them with the same settings. The simulated population is
known, so the ℓ2 error e of the second model is computed without any real record. A model smooths, so
its samples are easier to learn than real records, and e is slightly too small. The real reports correct
this. With p̂ the unbiased estimates of the shares of a column's or pair's values (`estimates`), V their
variances and m the model's shares,

$$ Q = ‖p̂ − m‖^2 − \sum V $$

estimates the squared error, minus the part of the noise in p̂ that the model fitted. This part is the
same in the rehearsal. So $e^2 + Q − Q_{rehearsed}$, averaged over columns or pairs, estimates the
squared error of the model. If it exceeds $e^2$, rehearsed errors are multiplied by the root of the
ratio. For reports that the model was not fitted to, Q itself estimates the squared error.

**Goodness of fit.** If a model is right, and was not fitted to the reports, $‖p̂ − m‖^2$ is a sum of
squares of nearly normal errors, with mean ΣV. With S their covariance, its tail is approximated by a
chi-square of $ν = (\mathrm{tr} S^2)^3 / (\mathrm{tr} S^3)^2$ degrees of freedom with the same mean,
variance and skewness (Pearson's approximation, in Imhof's paper). Matching only mean and variance
understates p-values where one error dominates (one in 5000 instead of one in 1000). A model fits some
of the noise of its own reports, so its residuals are smaller, and false alarms are rarer. This is not
corrected for, because the fitted part of the noise varies by column, from 1 % for three categories to
100 % for a number in eight codings that is learned as one curve, and a mean would cause false alarms.

Privacy review: all functions post-process a release, and a model that was learned from reports alone,
with public and random numbers. Rehearsed reports are of simulated people. No record is read.

References:
    Imhof, *Computing the distribution of quadratic forms in normal variables* (1961). Efron, Tibshirani,
    *An introduction to the bootstrap* (1993). Holm, *A simple sequentially rejective multiple test
    procedure* (1979).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy

from privot.evaluation import estimates
from privot.local import LocalModel
from privot.local.classes.class_fit import fit_again
from privot.local.classes.mixture import LatentClasses
from privot.local.releases import Releases
from privot.schema.domains import Array

FALSE_ALARMS = 0.05  # level of the tests of all columns and pairs together
MAX_REHEARSED = 200_000  # people in a rehearsal; more have smaller errors
Columns = tuple[int, ...]  # index of a column, or the indices of a pair
_MAX_COVARIANCES = 400  # most cells whose covariances are estimated


@dataclass(frozen=True)
class Residual:
    """Squared distance of a model's shares from estimates p̂ of covariance S, with traces of S."""

    square: float  # ‖p̂ − m‖²
    noise: float  # ΣV = tr S, the expected square if the model is right
    trace2: float  # tr S²
    trace3: float  # tr S³

    @property
    def excess(self) -> float:
        """The statistic Q."""
        return self.square - self.noise

    @property
    def p_value(self) -> float:
        """p-value of the test that the model is right; an upper bound for the model's own reports."""
        if self.trace2 <= 0:  # no report, or one
            return 1.0
        freedom = self.trace2**3 / self.trace3**2
        # Q has mean 0 and variance 2 tr S²; a chi-square has the mean ν and the variance 2ν.
        standardized = self.excess / (2 * self.trace2) ** 0.5
        return float(scipy.stats.chi2.sf(freedom + standardized * (2 * freedom) ** 0.5, freedom))

    @classmethod
    def of(cls, by_reports: estimates.Estimate, shares: Array) -> Self:
        """Compare a model's shares (cells,) with estimates; S may be given by its diagonal."""
        gap, spread = by_reports.mean - shares, by_reports.spread
        square = float(gap @ gap)
        if spread.ndim == 1:
            return cls(square, *(float((spread**n).sum()) for n in (1, 2, 3)))
        trace3 = float((spread @ spread * spread).sum())
        return cls(square, float(np.trace(spread)), float((spread**2).sum()), trace3)

    @classmethod
    def mean(cls, several: Sequence[Self]) -> Self:
        """Return the mean of independent residuals."""
        # Up to a factor, tr Sᵏ is the k-th cumulant of the square, and cumulants of a sum add up.
        means = np.mean([astuple(residual) for residual in several], axis=0)
        square, noise, trace2, trace3 = means.tolist()
        return cls(square, noise, trace2 / len(several), trace3 / len(several) ** 2)


def residuals(reports: estimates.CodeReports, atoms: LatentClasses) -> dict[Columns, Residual]:
    """Return the residual of each column or pair that reports are about, averaged over its questions."""

    def residual(questions: estimates.Questions) -> Residual:
        shares = estimates.cell_shares(atoms, *(reports.questions[number] for number in questions))
        # Shares covary because they sum to 1, which matters only if there are few cells.
        full = shares.size <= _MAX_COVARIANCES
        return Residual.of(estimates.estimate(reports, questions, full=full), shares)

    groups = reports.by_columns.items()
    return {columns: Residual.mean([*map(residual, group)]) for columns, group in groups}


def contradicted_by(p_values: Mapping[Columns, float]) -> set[Columns]:
    """Return the columns and pairs that Holm's procedure rejects at level `FALSE_ALARMS`."""
    ordered = sorted(p_values, key=p_values.__getitem__)
    for rank, columns in enumerate(ordered):
        if p_values[columns] > FALSE_ALARMS / (len(ordered) - rank):
            return set(ordered[:rank])
    return set(ordered)


class Fit(NamedTuple):
    """How well a model fits a column, or a pair of columns."""

    error: float  # expected total variation
    p_value: float | None  # of the test that the model is right; None without reports
    contradicted: bool  # whether the test rejects the model


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """Result of a rehearsal; errors are by column or pair of columns."""

    errors: dict[Columns, float]  # total variation of the rehearsed model from the true one
    squares: dict[Columns, float]  # squared ℓ2 distance of its shares from the true ones
    residuals: dict[Columns, Residual]  # residuals of the rehearsed model and reports
    model: LocalModel  # the rehearsed model, fitted to the simulated reports
    releases: Releases  # the simulated reports

    def fits(
        self, real: dict[Columns, Residual], *, held_out: bool
    ) -> Iterator[tuple[Columns, Fit]]:
        """Yield the fit of each column and pair, given the residuals of the real reports."""
        growth = [self.growth(real, num_columns, held_out=held_out) for num_columns in (1, 2)]
        p_values = {columns: residual.p_value for columns, residual in real.items()}
        contradicted = contradicted_by(p_values)
        for columns, error in self.errors.items():
            expected = min(1.0, error * growth[len(columns) - 1])
            yield columns, Fit(expected, p_values.get(columns), columns in contradicted)

    def growth(self, real: dict[Columns, Residual], num_columns: int, *, held_out: bool) -> float:
        """Estimate the ratio (≥ 1) of true to rehearsed errors, of single columns (1) or pairs (2).

        Its square is 1 + (Q − Q_rehearsed) / e², or 1 + (Q − e²) / e² for held-out reports.
        """
        reported = [columns for columns in real if len(columns) == num_columns]
        if not reported:
            return 1.0
        squared_error = np.mean([self.squares[columns] for columns in reported])  # e²
        # If few people are rehearsed, their reports may not cover all columns.
        found = [self.residuals[columns] for columns in reported if columns in self.residuals]
        rehearsed = np.mean([residual.excess for residual in found] or [0.0])
        expected = squared_error if held_out else rehearsed
        difference = np.mean([real[columns].excess for columns in reported]) - expected
        return max(1.0, 1 + float(difference / max(float(squared_error), 1e-12))) ** 0.5


def rehearse(
    model: LocalModel, releases: Releases, all_columns: Sequence[Columns], seed: int
) -> Rehearsed:
    """Simulate reports of as many people as reported, but at most 200 000, and fit a model to them.

    Arguments:
        model: Model of a table, which stands for the population.
        releases: Releases, of which only the randomizers and the numbers of reports are used.
        all_columns: Columns and pairs whose errors are computed, in the codes of the schema.
        seed: Seed of draws and fits; not of the reports' noise.
    """
    share = min(1.0, MAX_REHEARSED / len(releases))
    parts = []
    for number, part in enumerate(releases.parts):
        people = model.sample(max(round(share * len(part)), 1), seed=seed + number)
        names = list(part.randomizer.schema.table_columns)
        parts.append(part.randomizer.privatize(people.select(names)))
    simulated = Releases(tuple(parts))
    refitted = fit_again(model, simulated, seed)
    learned, true = estimates.sampler_of(refitted).classes, estimates.sampler_of(model).classes
    errors, squares = {}, {}
    for columns in all_columns:
        gap = (learned.marginal(columns) - true.marginal(columns)).ravel()
        errors[columns], squares[columns] = float(np.abs(gap).sum() / 2), float(gap @ gap)
    found = residuals(
        estimates.CodeReports.of(simulated, refitted), estimates.sampler_of(refitted).atoms
    )
    return Rehearsed(errors, squares, found, refitted, simulated)

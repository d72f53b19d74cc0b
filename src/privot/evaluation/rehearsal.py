r"""Rehearsal and goodness of a fit: the errors to expect of a model, and whether reports contradict it.

**Rehearsal** (`rehearse`). People drawn from the model report again, and the same settings are fitted to
their reports. The population is then known, so errors are computed without any real record. A model
smooths, so what it draws is easier to learn than real records are, and a rehearsal's error alone is a
little low. The reports' evidence against the model is added: with p̂ the unbiased shares of a pair
(`estimates`), V their variances and m the model's,

$$ Q = ‖p̂ − m‖^2 − \sum V $$

is the squared error, less the noise in p̂ that the model followed. In the rehearsal that part is the same
and the error e is known; so $e^2 + Q − Q_{rehearsed}$, averaged over pairs, estimates the squared error
of the model itself, and expected errors grow by the root of its ratio to $e^2$, if that is above 1. Of
reports that the model has not seen, Q itself estimates its squared error.

**Goodness of fit.** $‖p̂ − m‖^2$ of a model that is right, and has not seen the reports, is a sum of
squares of nearly normal errors, of mean ΣV; with S their covariance, its tail is that of a chi-square of
$ν = (\mathrm{tr} S^2)^3 / (\mathrm{tr} S^3)^2$ degrees of freedom with the same mean, variance and
skewness (Pearson's, in Imhof's paper). Mean and variance alone call one in a thousand one in five
thousand where one error is much larger than the others. A model follows some of the noise of its own
reports, so that less is left of it, and alarms are rarer. How much less is another share for every
column, from a hundredth, of a column of three categories, to all, of a number that is reported in eight
codings and learned as one curve: a mean of these shares would cause false alarms for the latter.

Privacy review: functions of public numbers, of coins, of a release and of a model, which was learned
from reports alone: post-processing. Rehearsed reports are of simulated people. No record is read.

References:
    Imhof, *Computing the distribution of quadratic forms in normal variables* (1961).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

import numpy as np
import scipy

from privot.evaluation.estimates import CodeReports, Estimate, cell_shares, estimate
from privot.local import LocalModel
from privot.local.classes.class_fit import fit_again
from privot.local.classes.mixture import LatentClasses, LatentClassSampler
from privot.local.releases import Releases
from privot.schema.domains import Array

FALSE_ALARMS = 0.05
MAX_REHEARSED = 200_000  # people: an error of more is smaller
Columns = tuple[int, ...]
_MAX_COVARIANCES = 400


def sampler_of(model: LocalModel) -> LatentClassSampler:
    """Return the latent classes of a table's model: `atoms`, and `classes` in the schema's codes."""
    assert isinstance(model.sampler, LatentClassSampler)  # as a check requires
    return model.sampler


@dataclass(frozen=True)
class Residual:
    """Distance of a model's shares from the reports' for the same columns.

    Arguments:
        square: ‖p̂ − m‖².
        noise: ΣV, the part of it that is the reports' noise.
        fourth: The trace of the squared covariance.
        sixth: The trace of the covariance cubed.
    """

    square: float
    noise: float
    fourth: float
    sixth: float

    @property
    def excess(self) -> float:
        """The statistic Q."""
        return self.square - self.noise

    @property
    def p_value(self) -> float:
        """Probability of as large a residual, if the model is right; of its own reports, at most."""
        if self.fourth <= 0:  # no report, or one
            return 1.0
        freedom = self.fourth**3 / self.sixth**2
        above = self.excess / (2 * self.fourth) ** 0.5
        return float(scipy.stats.chi2.sf(freedom + above * (2 * freedom) ** 0.5, freedom))

    @classmethod
    def of(cls, found: Estimate, shares: Array) -> Residual:
        """Compare the model's shares with estimates, and their covariance, or variances alone."""
        gap, spread = found.mean - shares, found.spread
        if spread.ndim == 1:
            return cls(float(gap @ gap), *(float((spread**n).sum()) for n in (1, 2, 3)))
        sixth = float((spread @ spread * spread).sum())
        return cls(float(gap @ gap), float(np.trace(spread)), float((spread**2).sum()), sixth)

    @classmethod
    def mean(cls, some: Sequence[Residual]) -> Residual:
        """Return the mean over questions in several alphabets, of about as many cells each."""
        square, noise, fourth, sixth = np.mean([astuple(each) for each in some], axis=0).tolist()
        return cls(square, noise, fourth / len(some), sixth / len(some) ** 2)


def residuals(reports: CodeReports, atoms: LatentClasses) -> dict[Columns, Residual]:
    """Return residuals of every column, and of every two that some report covers."""
    found = {}
    for columns, about in reports.by_columns.items():
        each = []
        for questions in about:
            shares = cell_shares(atoms, *map(reports.questions.__getitem__, questions))
            # Shares add up to 1: of few cells their covariances count, of many hardly.
            full = shares.size <= _MAX_COVARIANCES
            each.append(Residual.of(estimate(reports, questions, full=full), shares))
        found[columns] = Residual.mean(each)
    return found


def contradicted_by(own: Mapping[Columns, Residual]) -> set[Columns]:
    """Return columns and pairs that reports contradict, with one false alarm in twenty at most."""
    return set(_holm({columns: residual.p_value for columns, residual in own.items()}))


def _holm(p_values: Mapping[Columns, float]) -> Iterator[Columns]:
    """Yield the rejected hypotheses, with at most one false alarm in twenty."""
    ordered = sorted(p_values, key=p_values.__getitem__)
    for rank, columns in enumerate(ordered):
        if p_values[columns] > FALSE_ALARMS / (len(ordered) - rank):
            return
        yield columns


class Fit(NamedTuple):
    """How well a model fits a column, or a pair of columns."""

    error: float  # total variation to expect
    p_value: float | None  # of reports this far from the model; None without reports
    contradicted: bool


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """Results of a rehearsal, by columns."""

    errors: dict[Columns, float]  # total variation
    squares: dict[Columns, float]  # ‖m′ − m‖²
    residuals: dict[Columns, Residual]  # of its model, by its reports
    model: LocalModel  # fitted in the rehearsal
    releases: Releases  # its reports

    def fits(
        self, own: dict[Columns, Residual], *, held_out: bool
    ) -> Iterator[tuple[Columns, Fit]]:
        """Yield the fit of the model to each column and pair, by residuals of the reports."""
        growth = [self.growth(own, several, held_out=held_out) for several in (1, 2)]
        contradicted = contradicted_by(own)
        for columns, error in self.errors.items():
            p_value = own[columns].p_value if columns in own else None
            expected = min(1.0, error * growth[len(columns) - 1])
            yield columns, Fit(expected, p_value, columns in contradicted)

    def growth(self, own: dict[Columns, Residual], several: int, *, held_out: bool) -> float:
        """Estimate the ratio of the model's errors to rehearsed ones from the reports' residuals."""
        reported = [columns for columns in own if len(columns) == several]
        if not reported:
            return 1.0
        # Where few report, no report may cover some columns.
        excess = [self.residuals[c].excess for c in reported if c in self.residuals]
        square = np.mean([self.squares[c] for c in reported])
        noise = square if held_out else np.mean(excess or [0.0])
        more = np.mean([own[c].excess for c in reported]) - noise
        return max(1.0, 1 + float(more / max(float(square), 1e-12))) ** 0.5


def rehearse(
    model: LocalModel, releases: Releases, every: Sequence[Columns], seed: int
) -> Rehearsed:
    """Rehearse with as many people as reported; of more than 200 000, with so many.

    Arguments:
        model: Model of a table.
        releases: Only their randomizers are used, by as many people each; not their reports.
        every: Columns, and pairs, whose errors are computed, in the schema's codes.
        seed: Seed of draws and fits; not of the reports' noise.
    """
    share = min(1.0, MAX_REHEARSED / len(releases))
    parts = []
    for number, part in enumerate(releases.parts):
        people = model.sample(max(round(share * len(part.rows)), 1), seed=seed + number)
        read = part.randomizer.schema.table_columns
        parts.append(part.randomizer.privatize(people.select(list(read))))
    again = Releases(tuple(parts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing to warn of: the people are simulated
        learned = fit_again(model, again, seed)
    law, true = sampler_of(learned).classes, sampler_of(model).classes
    gaps = {each: (law.marginal(each) - true.marginal(each)).ravel() for each in every}
    errors = {each: float(np.abs(gap).sum() / 2) for each, gap in gaps.items()}
    squares = {each: float(gap @ gap) for each, gap in gaps.items()}
    found = residuals(CodeReports.of(again), sampler_of(learned).atoms)
    return Rehearsed(errors, squares, found, learned, again)

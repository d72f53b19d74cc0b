r"""A rehearsal: people whom the model drew report again, and the same settings learn from them.

The population is then known, so errors can be counted, though no real record was seen. A model smooths,
so what it draws is easier to learn than people are, and a rehearsal's error alone is a little low. What
reports say against the model is added: with p̂ the unbiased shares of a pair (`estimates`), V their
variances and m the model's,

$$ Q = ‖p̂ − m‖^2 − \sum V , $$

is the squared error, less what the model took over from the noise in p̂. In the rehearsal that part is
the same and the error e is known; so $e^2 + Q − Q_{rehearsed}$, averaged over pairs, estimates the
squared error of the model itself, and expected errors grow by the root of its ratio to $e^2$, if that
is above 1.

Of reports that the model has not seen, Q itself estimates its squared error.

**Agreement.** $‖p̂ − m‖^2$ of a model that is right, and has not seen the reports, is a sum of squares
of nearly normal errors, of mean ΣV; with S their covariance, its tail is that of a chi-square of $ν =
(\mathrm{tr} S^2)^3 / (\mathrm{tr} S^3)^2$ degrees of freedom with the same mean, variance and skewness
(Pearson's, in Imhof's paper). Mean and variance alone call one in a thousand one in five thousand
where one error is much larger than the others. A model follows some of the noise of its own reports,
so that less is left of it, and alarms are rarer. How much less is another share for every column, from
a hundredth, of a column of three categories, to all, of a number that is asked in eight codings and
learned as one curve: a mean of these shares would make the latter cry wolf.

Privacy review: functions of a release and of coins: post-processing. Rehearsed reports are of made-up
people.

References:
    Imhof, *Computing the distribution of quadratic forms in normal variables* (1961).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Self

import numpy as np
import scipy

from privot.evaluation.estimates import estimate
from privot.evaluation.heard import Asked, Heard
from privot.local import LocalModel
from privot.local.classes.class_fit import fit_again
from privot.local.classes.product_mixture import LatentClasses
from privot.local.classes.sampler import LatentClassSampler
from privot.local.releases import Releases
from privot.release import Release
from privot.schema import Array

REHEARSALS = 1
_MOST_COVARIANCES = 400
MOST_REHEARSED = 200_000  # people: an error of more is smaller
Columns = tuple[int, ...]


@dataclass(frozen=True)
class Residual:
    """How far a model's shares are from the reports' of the same columns.

    Arguments:
        square: ‖p̂ − m‖².
        noise: ΣV, what of it is the reports' noise.
        fourth: The trace of the squared covariance.
        sixth: The trace of the covariance cubed.
    """

    square: float
    noise: float
    fourth: float
    sixth: float

    @property
    def excess(self) -> float:
        """Q."""
        return self.square - self.noise

    @property
    def p_value(self) -> float:
        """How probable as large a residual is, if the model is right; of its own reports, at most."""
        if self.fourth <= 0:  # nobody, or one person, was asked
            return 1.0
        freedom = self.fourth**3 / self.sixth**2
        above = self.excess / (2 * self.fourth) ** 0.5
        return float(scipy.stats.chi2.sf(freedom + above * (2 * freedom) ** 0.5, freedom))

    @classmethod
    def mean(cls, some: Sequence[Residual]) -> Residual:
        """Of questions in several alphabets, of about as many cells each."""
        square, noise, fourth, sixth = np.mean([astuple(each) for each in some], axis=0).tolist()
        return cls(square, noise, fourth / len(some), sixth / len(some) ** 2)


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What a model says of questions, exactly.

    Arguments:
        atoms: Its law of the columns' atoms.
    """

    atoms: LatentClasses

    @classmethod
    def of(cls, model: LocalModel) -> Self:
        """Those of a table's model."""
        sampler = model.sampler
        assert isinstance(sampler, LatentClassSampler)  # as a check requires
        return cls(sampler.atoms)

    def shares(self, *asked: Asked) -> Array:
        """Probabilities of the cells of one or two questions (cells,)."""
        table = self.atoms.marginal([each.column for each in asked])
        for axis, each in enumerate(asked):
            of_code = np.arange(each.size)[:, None] == each.codes
            table = np.moveaxis(np.tensordot(of_code * 1.0, table, (1, axis)), 0, axis)
        return table.ravel()


def residuals(heard: Heard, believed: Beliefs) -> dict[Columns, Residual]:
    """Of every column, and every two that some report is about."""
    found: dict[Columns, list[Residual]] = {}
    for questions in heard.pairs:
        shares = believed.shares(*(heard.asked[q] for q in questions))
        # Shares add up to 1: of few cells their covariances count, of many hardly.
        told = estimate(heard, questions, full=shares.size <= _MOST_COVARIANCES)
        gap = told.mean - shares
        powers = _traces(told.spread)
        own, columns = Residual(float(gap @ gap), *powers), heard.columns(questions)
        found.setdefault(tuple(sorted(columns)), []).append(own)
    return {columns: Residual.mean(some) for columns, some in found.items()}


def _traces(spread: Array) -> tuple[float, float, float]:
    """Of a covariance, or of variances alone, and of its square and cube."""
    if spread.ndim == 1:
        return float(spread.sum()), float((spread**2).sum()), float((spread**3).sum())
    square = float((spread**2).sum())
    return float(np.trace(spread)), square, float((spread @ spread * spread).sum())


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """What some rehearsals showed, by columns.

    Arguments:
        errors: Total variation, means over the rehearsals.
        squares: Squared error ‖m′ − m‖², likewise.
        residuals: Of each rehearsal.
        models: What each learned.
        releases: What each one's people reported.
    """

    errors: dict[Columns, float]
    squares: dict[Columns, float]
    residuals: Sequence[dict[Columns, Residual]]
    models: Sequence[LocalModel] = ()
    releases: Sequence[Releases] = ()

    def growth(self, own: dict[Columns, Residual], several: int, *, held_out: bool) -> float:
        """How much larger the model's errors are than rehearsed ones, as reports tell."""
        asked = [columns for columns in own if len(columns) == several]
        if not asked:
            return 1.0
        # Where few report, nobody may be asked for some columns.
        excess = [each[c].excess for each in self.residuals for c in asked if c in each]
        rehearsed = np.mean(excess or [0.0])
        square = np.mean([self.squares[c] for c in asked])
        more = np.mean([own[c].excess for c in asked]) - (square if held_out else rehearsed)
        return max(1.0, 1 + float(more / max(float(square), 1e-12))) ** 0.5


def rehearse(
    model: LocalModel, releases: Releases, asked: Sequence[Columns], seed: int
) -> Rehearsed:
    """Rehearsals of as many people as reported; of more than 200 000, of so many.

    Arguments:
        model: Of a table.
        releases: Whose randomizers are used, by as many people each, and whose reports are not.
        asked: Columns whose errors are counted, in the schema's codes.
        seed: Of draws and fits; not of the reports' noise.
    """
    codes = codes_of(model)
    share = min(1.0, MOST_REHEARSED / len(releases))
    errors, squares, found, models, reported = [], [], [], [], []
    for number in range(REHEARSALS):
        again = Releases(
            tuple(
                _report(model, part, round(share * len(part)), seed + number + REHEARSALS * i)
                for i, part in enumerate(releases.parts)
            )
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of made-up people there is nothing to be warned of
            learned = fit_again(model, again, seed + number)
        laws = codes_of(learned)
        gaps = [(laws.marginal(columns) - codes.marginal(columns)).ravel() for columns in asked]
        errors.append([np.abs(gap).sum() / 2 for gap in gaps])
        squares.append([gap @ gap for gap in gaps])
        found.append(residuals(Heard.of(again), Beliefs.of(learned)))
        models.append(learned)
        reported.append(again)
    means = [np.mean(each, axis=0).tolist() for each in (errors, squares)]
    of, square_of = (dict(zip(asked, mean, strict=True)) for mean in means)
    return Rehearsed(of, square_of, found, models, reported)


def codes_of(model: LocalModel) -> LatentClasses:
    """The law of the schema's codes."""
    sampler = model.sampler
    assert isinstance(sampler, LatentClassSampler)
    return sampler.classes


def _report(model: LocalModel, part: Release, people: int, seed: int) -> Release:
    """Reports of people whom the model drew, as one of its releases asked."""
    drawn = model.sample(max(people, 1), seed=seed)
    return part.randomizer.privatize(drawn.select(list(part.schema.table_columns)))

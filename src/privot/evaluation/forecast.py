r"""What a fit of a table will err by, before anyone reports: people of a known law rehearse it.

Something stands for the people who will report: **a pilot's model**, or any other of the same columns;
or, where there is none, **made-up people** (`populations`). The people whom it draws report at the
planned ε and are learned from as `fit` does, and the model is compared with what they were drawn from.

**What a fit errs by depends on how much columns depend**, beside ε, the number of people and the single
columns: of fits of ten populations with the same columns the two-way errors lie on one curve of the mean
distance t of pairs from independence. Single columns a pilot tells well. Of t it often tells little: its
own fit shows less than there is, and none where reports are few. So t is inferred from what the pilot's
fit found, $d$, by doing the same to populations whose t is known (approximate Bayesian computation):
t is even on $[d/1.5, \max(.2, 1.5 d)]$ before, since no fit finds much more than there is; of each t on
a grid a population has the pilot's single columns and random classes (`populations.with_columns_of`), as
many people as the pilot's report as its did, and $d_t$ is what a fit of these finds. Its weight is

$$ w_t ∝ \exp\Bigl(−\frac{(d_t − d)^2}{2 h^2}\Bigr) , \qquad h = .02 + .1 d , $$

0 where only one of both fits found any dependence, if some that agree are within 2 h. The error told is
the mean, by these weights, of what fits of the planned reports err by. Where the pilot tells nothing of
t it is a mean over all; `low` and `high` are what a tenth and nine tenths of these fits, by weight, err
below.

**A pilot that found dependence** says of what kind it is, too. People drawn from it are easier to learn
than people; those of random classes depend in ways as different as can be. Where a fit of the former, as
small as the pilot, finds all its dependence again, the geometric mean of both errors is told, and the
less of it, the less they count.

Privacy review: a function of public numbers, coins, and a model, which was learned from reports alone:
post-processing. No record is read.

References:
    Beaumont, Zhang, Balding, *Approximate Bayesian computation in population genetics* (2002).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privot.errors import MOST_PEOPLE, PrivotError, require_count
from privot.evaluation.populations import (
    Population,
    dependence,
    made_up,
    stands_for,
    with_columns_of,
)
from privot.evaluation.rehearsal import MOST_REHEARSED, codes_of
from privot.local.classes.class_fit import fit_again
from privot.local.fitting import fit
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.release import Randomizer
from privot.schema import Array, Schema

REHEARSALS = 2
_FITS = 3  # of a rehearsal of one population; all but the first by settings that the first chose
_IN_ALL = 12  # of all populations that a pilot leaves possible, at least
_STRENGTHS = 7
_STRONGEST, _BEYOND = 0.2, 1.5
_NEAR, _SHARE_OF_FOUND, _FAR = 0.02, 0.1, 2.0
_NEGLIGIBLE = 0.05  # of the largest weight
_NOTHING = 1e-6  # of dependence, by rounding
_ENDS = 0.1, 0.9
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FitForecast:
    """Total variation to expect of `fit`.

    Arguments:
        one_way: Mean over columns.
        two_way: Mean over pairs of columns; None of a single one.
        rehearsals: How many fits were made.
        made_up: Whether people were made up; else a model's columns were theirs.
        low: Two-way error that one fit in ten falls below, over all that the model leaves possible.
        high: That one in ten exceeds; both None of made-up people, and of a single column.
    """

    one_way: float
    two_way: float | None
    rehearsals: int
    made_up: bool
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, eq=False)
class _Told:
    """Mean errors (2,), and two-way ones of a tenth and nine tenths of the weight."""

    mean: Array
    ends: Array | None = None


def forecast_fit(
    schema: Schema,
    epsilon: float,
    people: int,
    *,
    like: LocalModel | None = None,
    rehearsals: int = REHEARSALS,
    seed: int = 0,
    progress: Progress | None = None,
) -> FitForecast:
    """Rehearse reports and their fit, each as long as two fits; with `like`, some five times as long.

    Of more than 200 000 people, 200 000 rehearse, and errors fall with the root of the number.

    Arguments:
        schema: What a record may be; all columns are reported as codes.
        epsilon: Privacy loss of one person's whole report.
        people: How many will report.
        like: A model of the same columns that stands for them; made-up people otherwise.
        rehearsals: Populations of made-up people; with `like`, of each strength of dependence, half as
            many, at least one.
        seed: Of populations, draws and fits; not of the reports' noise.
        progress: Told how many fits are done, of how many at most.

    Raises:
        PrivotError: for columns that are reported as points, a model of others, or numbers out of range.
    """
    people = require_count("people", people, MOST_PEOPLE, "more than ever lived")
    rehearsals = require_count("rehearsals", rehearsals, 100, "enough")
    randomizer = Randomizer.calibrate(schema, epsilon)
    if randomizer.joint is None or set(schema.coded) != set(schema.columns):
        raise PrivotError(
            "a rehearsal is of tables whose columns are all reported as codes: plan without one, which "
            "tells the errors of points"
        )
    rehearsal = _Rehearsal(randomizer, people, seed, progress or (lambda done, of: None))
    if like is None:
        found = rehearsal.of_made_up(rehearsals)
    else:
        found = rehearsal.of_model(like, max(1, rehearsals // 2))
    shrunk = (rehearsal.people / people) ** 0.5
    one, two = np.minimum(found.mean * shrunk, 1.0)
    if np.isnan(two):
        return FitForecast(float(one), None, rehearsal.done, like is None)
    ends = (None, None) if found.ends is None else np.minimum(found.ends * shrunk, 1.0).tolist()
    return FitForecast(float(one), float(two), rehearsal.done, like is None, *ends)


class _Rehearsal:
    """Rehearsals of one plan."""

    def __init__(self, randomizer: Randomizer, people: int, seed: int, progress: Progress):
        self.randomizer, self.seed, self.progress = randomizer, seed, progress
        self.people = min(people, MOST_REHEARSED)
        self.done, self.fits, self.drawn = 0, 0, 0

    def of_made_up(self, several: int) -> _Told:
        """Of as many populations."""
        self.fits = several
        schema = self.randomizer.schema
        invented = (made_up(schema, self.seed + number) for number in range(several))
        return _Told(np.mean([self.errors(each, _FITS).mean(axis=0) for each in invented], axis=0))

    def of_model(self, like: LocalModel, several: int) -> _Told:
        """Of a model's columns, with dependence as strong as it leaves possible, and of its own."""
        schema = self.randomizer.schema
        own, found = stands_for(like, schema), dependence(codes_of(like))
        range_of = found / _BEYOND, max(_STRONGEST, found * _BEYOND)
        strengths = np.linspace(*range_of, _STRENGTHS).repeat(several)
        self.fits = 2 * len(strengths) + 2
        people = [
            stands_for(with_columns_of(like, float(t), self.seed + number), schema)
            for number, t in enumerate(strengths)
        ]
        seen = np.array([dependence(codes_of(self.again(each, like))) for each in people])
        weights = likely(seen, found)
        kept = np.flatnonzero(weights)
        # Few populations are left where a pilot tells much: then each is rehearsed more often.
        fits = -(-_IN_ALL // len(kept))
        errors = np.concatenate([self.errors(people[number], fits) for number in kept])
        weights = (weights[kept] / weights[kept].sum() / fits).repeat(fits)
        mean, ends = weights @ errors, quantiles(errors[:, 1], weights)
        if found > _NOTHING:
            again = min(1.0, dependence(codes_of(self.again(own, like))) / found)
            ratio = (self.errors(own, _FITS).mean(axis=0) / mean) ** (again / 2)
            mean, ends = mean * ratio, ends * ratio[1]
        return _Told(mean, ends)

    def again(self, population: Population, like: LocalModel) -> LocalModel:
        """What as many people as a model's teach, by reports like theirs."""
        people = min(int(like.made_with["num_reports"]), MOST_REHEARSED)
        releases = self.report(population, like.randomizer, people)
        return self.told(lambda: fit(releases.parts, seed=self.seed + self.done))

    def errors(self, population: Population, fits: int) -> Array:
        """Of one fit of the planned reports, and of others by the settings that it chose (fits, 2)."""
        releases = self.report(population, self.randomizer, self.people)
        model = self.told(lambda: fit(releases.parts, seed=self.seed + self.done))
        found = [population.errors(model)]
        for _ in range(fits - 1):
            more = self.report(population, self.randomizer, self.people)
            found.append(population.errors(fit_again(model, more, self.seed + self.drawn)))
        return np.array(found)

    def report(self, population: Population, by: Randomizer, people: int) -> Releases:
        """Reports of people whom nobody has drawn before."""
        self.drawn += 1
        return Releases.of(by.privatize(population.draw(people, self.seed + self.drawn)))

    def told(self, fitted: Callable[[], LocalModel]) -> LocalModel:
        """A fit, told when it begins and ends."""
        self.progress(self.done, self.fits)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of made-up people there is nothing to be warned of
            model = fitted()
        self.done += 1
        self.progress(self.done, self.fits)
        return model


def likely(seen: Array, found: float) -> Array:
    """Weights of populations whose fits showed dependence `seen` (R,), where one's `found` so much.

    Examples:
        >>> likely(np.array([0.0, 0.0, 0.09, 0.1]), 0.1).round(2).tolist()
        [0.0, 0.0, 0.95, 1.0]
    """
    logs = -(((seen - found) / (_NEAR + _SHARE_OF_FOUND * found)) ** 2) / 2
    alike = (seen > _NOTHING) == (found > _NOTHING)
    # That a fit finds any dependence, or none, is the most that it says, if one like it comes near.
    if logs[alike].max(initial=-np.inf) > -(_FAR**2) / 2:
        logs[~alike] = -np.inf
    weights = np.exp(logs - logs.max())
    return np.asarray(np.where(weights > _NEGLIGIBLE, weights, 0.0))


def quantiles(values: Array, weights: Array) -> Array:
    """Where a tenth and nine tenths of the weight (1 in all) lie below."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return np.asarray(np.interp(_ENDS, below, values[order]))

r"""What a fit of a table will err by, before anyone reports: people of a known law rehearse it.

Something stands for the people who will report: **a pilot's model**, or any other of the same columns;
or, where there is none, **made-up people**: random latent classes of the schema's alphabets, in which
the joint shares of two columns differ from those of independent ones by .1 in total variation, in the
mean over pairs, which is what columns of a census do (`made_up`). The people whom it draws report at
the planned ε and are learned from as `fit` does, and the model is compared with what they were drawn
from.

Errors of one fit vary by a tenth or a fifth of themselves from release to release. So each fit is
followed by two of other people's reports by the settings that it chose, and their mean is told.

**A pilot's model is smoother than people**, and pairs of people drawn from it are easier to learn. How
much, a rehearsal of the pilot itself tells: as many people as it had are drawn from its model m and
report, a model m′ is learned from them, and is to m what m is to people. With E(·) the two-way error of
a fit of the planned reports of people whom a model drew, the error told is

$$ E(m) \cdot \max(1, E(m) / E(m′)) , $$

a bootstrap's correction by the bootstrap. Single columns need none.

**Half of each.** A pilot is small and its own forecast errs by some ten percent, now up, now down; that
of made-up people errs where others depend more or less. Told is the geometric mean of both.

**A pilot that found no dependence** may have been too small to. So as many made-up people report as it
had, some times: if dependence is found every time, columns are believed to be independent, and the
pilot stands alone; else it says nothing of pairs, and made-up people do.

Privacy review: a function of public numbers, coins, and a model, which was learned from reports alone:
post-processing. No record is read.

References:
    Hall, *The bootstrap and Edgeworth expansion* (1992), of iterated bootstraps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from privot.errors import MOST_PEOPLE, PrivotError, require_count
from privot.evaluation.distances import independent, total_variation
from privot.evaluation.rehearsal import MOST_REHEARSED, codes_of
from privot.local.classes.class_fit import fit_again
from privot.local.classes.product_mixture import LatentClasses
from privot.local.fitting import fit
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.release import Randomizer
from privot.schema import Array, Schema

REHEARSALS = 2
_AGAIN = 2  # fits by settings that are chosen, at a fifth of the time of choosing
_CLASSES = 12
_DEPENDENCE = 0.1
_LARGEST_SCALE, _HALVINGS = 8.0, 12
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FitForecast:
    """Total variation to expect of `fit`.

    Arguments:
        one_way: Mean over columns.
        two_way: Mean over pairs of columns; None of a single one.
        rehearsals: How many were made.
        made_up: Whether people were made up; else they were a model's.
    """

    one_way: float
    two_way: float | None
    rehearsals: int
    made_up: bool


@dataclass(frozen=True, eq=False)
class Population:
    """People whose law is known.

    Arguments:
        law: Of the schema's codes.
        draw: Records of n of them, by a seed.
    """

    law: LatentClasses
    draw: Callable[[int, int], pa.Table]

    def errors(self, model: LocalModel) -> Array:
        """One- and two-way error of a model of these people, means over columns and pairs."""
        learned, every = codes_of(model), range(len(self.law.sizes))
        found = []
        for several in (1, 2):
            ways = [*combinations(every, several)]
            told = [total_variation(learned.marginal(w), self.law.marginal(w)) for w in ways]
            found.append(np.mean(told) if told else np.nan)
        return np.array(found)


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
    """Rehearse reports and their fit, each as long as two fits; with `like`, thrice as many.

    Of more than 200 000 people, 200 000 rehearse, and errors fall with the root of the number.

    Arguments:
        schema: What a record may be; all columns are reported as codes.
        epsilon: Privacy loss of one person's whole report.
        people: How many will report.
        like: A model of the same columns that stands for them; made-up people otherwise.
        rehearsals: How many; each of made-up people is of another population.
        seed: Of populations, draws and fits; not of the reports' noise.
        progress: Told how many fits are done, of how many.

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
    found = rehearsal.of_model(like, rehearsals) if like else rehearsal.of_made_up(rehearsals)
    one, two = np.minimum(found * (rehearsal.people / people) ** 0.5, 1.0)
    pairs = None if np.isnan(two) else float(two)
    return FitForecast(float(one), pairs, rehearsal.done, rehearsal.made_up)


class _Rehearsal:
    """Rehearsals of one plan: mean errors, one-way and two-way."""

    def __init__(self, randomizer: Randomizer, people: int, seed: int, progress: Progress):
        self.randomizer, self.seed, self.progress = randomizer, seed, progress
        self.people = min(people, MOST_REHEARSED)
        self.done, self.fits, self.drawn, self.made_up = 0, 0, 0, True

    def of_made_up(self, several: int) -> Array:
        """Of as many populations."""
        self.fits = self.done + several
        return self.each(self.invented(several))

    def invented(self, several: int) -> list[Population]:
        """As many populations of made-up people."""
        schema = self.randomizer.schema
        return [made_up(schema, self.seed + number) for number in range(several)]

    def of_model(self, like: LocalModel, several: int) -> Array:
        """Of a model's people, or made-up ones, or half of each, as its dependence says."""
        own, self.fits = stands_for(like, self.randomizer.schema), 2 * several
        if not found_dependence(like):
            tried = (self.again(each, like) for each in self.invented(several))
            if not all(map(found_dependence, tried)):
                return self.of_made_up(several)
            self.made_up = False
            return self.each([own] * several)
        self.made_up, self.fits = False, 3 * several + 1
        found, growth = self.each([own] * several), np.ones(2)
        easier = stands_for(self.again(own, like), self.randomizer.schema)
        growth[1] = max(1.0, found[1] / max(self.each([easier] * several)[1], 1e-12))
        root: Array = np.sqrt(found * growth * self.of_made_up(several))
        return root

    def each(self, populations: Sequence[Population]) -> Array:
        """Of a fit of each."""
        means: Array = np.mean([self.errors(each) for each in populations], axis=0)
        return means

    def again(self, population: Population, like: LocalModel) -> LocalModel:
        """What as many people as a model's teach, by reports like theirs."""
        people = min(int(like.made_with["num_reports"]), MOST_REHEARSED)
        releases = self.report(population, like.randomizer, people)
        return self.told(lambda: fit(releases.parts, seed=self.seed + self.done))

    def errors(self, population: Population) -> Array:
        """Of one fit of the planned reports, and of others by the settings that it chose."""
        releases = self.report(population, self.randomizer, self.people)
        model = self.told(lambda: fit(releases.parts, seed=self.seed + self.done))
        found = [population.errors(model)]
        for _ in range(_AGAIN):
            more = self.report(population, self.randomizer, self.people)
            found.append(population.errors(fit_again(model, more, self.seed + self.drawn)))
        mean: Array = np.mean(found, axis=0)
        return mean

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


def found_dependence(model: LocalModel) -> bool:
    """Whether a fit found that columns depend on each other."""
    return bool(model.made_with["averaged"][0]["num_classes"] > 1)


def stands_for(model: LocalModel, schema: Schema) -> Population:
    """A model's people, in the codes of a schema of the same columns.

    Raises:
        PrivotError: for a model of no table, or of other columns or values.
    """
    if "averaged" not in model.made_with:
        raise PrivotError(
            f"like is by estimator {model.made_with['estimator']!r}, and a rehearsal is of tables whose "
            "columns are all reported as codes: give a model of such a table"
        )
    theirs = {name: column.labels for name, column in model.schema.coded.items()}
    for name, column in schema.coded.items():
        if theirs.get(name) != column.labels:
            raise PrivotError(
                f"like has column {name!r} not at all, or with other values or bins: give a model of "
                "the schema's columns"
            )
    if list(theirs) != list(schema.coded):
        raise PrivotError(
            f"like is of the columns {', '.join(theirs)}: give a model of the schema's, in its order"
        )
    names = list(schema.table_columns)
    return Population(codes_of(model), lambda n, seed: model.sample(n, seed=seed).select(names))


def made_up(schema: Schema, seed: int) -> Population:
    """Random latent classes of the schema's alphabets, whose pairs depend as a census's do.

    Every column's scores are normal, and each class's differ from them by normal ones, times what makes
    the mean distance of pairs from independence .1, if columns are long enough for that.
    """
    rng = np.random.default_rng([seed, 1])
    sizes = [column.alphabet.size for column in schema.coded.values()]
    weights = rng.dirichlet(np.ones(_CLASSES))
    own = [rng.standard_normal((size, 1)) for size in sizes]
    apart = [rng.standard_normal((size, _CLASSES)) for size in sizes]

    def law(scale: float) -> LatentClasses:
        scores = [np.exp(base + scale * each) for base, each in zip(own, apart, strict=True)]
        return LatentClasses(weights, tuple(each / each.sum(axis=0) for each in scores))

    low, high = 0.0, _LARGEST_SCALE
    for _ in range(_HALVINGS if len(sizes) > 1 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if _dependence(law(middle)) < _DEPENDENCE else (low, middle)
    made = law(low if len(sizes) > 1 else 1.0)

    def draw(people: int, seed: int) -> pa.Table:
        rng = np.random.default_rng([seed, 2])
        return _records(schema, made.sample(people, rng), rng)

    return Population(made, draw)


def _dependence(law: LatentClasses) -> float:
    """Mean distance of pairs from independence."""
    gaps = [
        total_variation(joint, independent(joint))
        for joint in map(law.marginal, combinations(range(len(law.sizes)), 2))
    ]
    return float(np.mean(gaps))


def _records(schema: Schema, codes: np.ndarray, rng: np.random.Generator) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for index, (name, column) in enumerate(schema.coded.items()):
        columns |= column.decode_codes(name, codes[:, index], rng)
    return pa.table(columns)

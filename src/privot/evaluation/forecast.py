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

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import numpy as np
import pyarrow as pa

from privot.core.errors import MOST_PEOPLE, PrivotError, require_count
from privot.evaluation.distances import joint_shares, sample_distance, total_variation
from privot.evaluation.rehearsal import (
    MOST_REHEARSED,
    Population,
    codes_of,
    dependence,
    made_up,
    stands_for,
    with_columns_of,
)
from privot.local.classes.class_fit import fit_again
from privot.local.fitting import fit
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.mechanisms import RandomizedResponse
from privot.models import Model
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.candidates import CandidatesReport
from privot.schema import Schema
from privot.schema.domains import Array, to_unit
from privot.tables.files import as_table

# What one report of an image with a label gives away, to an attacker who knows much else.
#
# The attacker has the clean images and labels of half of the people, hence what images of each label
# look like on average, and knows how reports are made; they name the other half's labels, each from
# its one report. Of candidates they take the label whose mean features lie nearest to the reported
# direction; of noised images, the label that is likeliest, by its own report and by the image's
# distance from the mean. Another attacker may name more. It depends on real records: **not private**.


_AT_ONCE = 4096


def name_labels(release: Release, people: pa.Table) -> float:
    """Share of people whose label the attacker names, of columns `image` and `label`.

    Reports are in the people's order.
    """
    labels = release.schema.coded["label"].encode_codes("label", people)
    known = np.arange(len(labels)) % 2 == 0
    report = release.randomizer.candidates
    if report is None:
        scores = _scores_of_noise(release, people, known)
    else:
        scores = _scores_of_candidates(release, report, people, known)
    return float((scores[~known].argmax(axis=1) == labels[~known]).mean())


def directions(release: Release, report: CandidatesReport, rows: slice) -> tuple[Array, Array]:
    """What reported candidates say of labels (n, C), and of points with each of them (n, C, q)."""
    answers, codebook = report.read(release.table), report.mechanism.codebook
    y = codebook.rows(answers.seeds[rows], answers.indices[rows])
    labels, points, _ = report.features.parts(y)
    return labels, points


def _scores_of_candidates(
    release: Release, report: CandidatesReport, people: pa.Table, known: np.ndarray
) -> Array:
    """Of each label (n, C): the mean features' product with the reported direction."""
    records = report.encode(people)
    means = _class_means(records.points[known], records.codes[known], report.features.labels)
    weight = report.features.label_weight
    scores = np.empty((len(known), len(means)))
    for start in range(0, len(known), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        labels, points = directions(release, report, rows)
        scores[rows] = math.sqrt(weight) * labels
        scores[rows] += math.sqrt(1 - weight) * np.einsum("ncq,cq->nc", points, means)
    return scores


def _scores_of_noise(release: Release, people: pa.Table, known: np.ndarray) -> Array:
    """Of each label (n, C): the logarithm of how likely both reports are, of its mean image."""
    schema, mechanisms = release.schema, release.randomizer.mechanisms
    clean = schema.images["image"].encode_points("image", people)
    codes = schema.coded["label"].encode_codes("label", people)
    count = schema.coded["label"].alphabet.size
    means = _class_means(clean[known], codes[known], count)
    images, labels = release.reports("image")[0], release.reports("label")[0]
    stddev = math.sqrt(mechanisms["image"].variance)
    far = ((images**2).sum(axis=1)[:, None] - 2 * images @ means.T + (means**2).sum(axis=1)) / 2
    told = np.log(cast("RandomizedResponse", mechanisms["label"]).likelihood_ratio)
    return np.asarray(told * (labels == np.arange(len(means))) - far / stddev**2)


def _class_means(points: Array, codes: np.ndarray, count: int) -> Array:
    """Means (C, q) of points (n, q) of each label; 0 of one that nobody has."""
    own = codes == np.arange(count)[:, None]
    return np.asarray(own @ points / np.maximum(own.sum(axis=1, keepdims=True), 1))


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


# A rehearsal of a whole campaign: simulated people report, what is learned is shown, all stamped.
#
# **Simulated people** stand for those who will be asked: rows of a public or older table, drawn again
# with replacement; records that a model draws; or, where there is neither, made-up people
# (`populations`). As many as will report are privatized at the planned ε and learned from as `fit`
# does, several times with fresh people and fresh noise. Each model's error is its distance from the
# law that people were drawn from; the error **without noise** is that of the people's own records,
# which no method can beat by much.
#
# Nothing of it may be taken for an answer. So the schema says one record per *SIMULATED person*: a
# randomizer, a release and a model say it too, and no report of a rehearsal can be collected with a
# real one, whose schema is another.
#
# Privacy review: a function of public numbers, of coins, and of the prior: what is shown is as
# private as that is. A table of real private people is no prior: their rows are drawn, and shown.


STAMP = "SIMULATED"
_REFERENCE, _POINTS = 200_000, 20_000
Errors = dict[str, float]


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """What a campaign would show.

    Arguments:
        predicted: Mean errors of fits: `one_way` and `two_way` total variation, or `W2` of places, where
            the bounds are −1 and 1.
        low: The least of them.
        high: The largest.
        without_noise: Errors of the people's own records.
        model: The first fit's; its schema says that it is simulated.
        people: Whom the first fit's reports are of.
        rehearsals: How many fits.
        rehearsed: How many people each is of; errors are scaled where more will report.
    """

    predicted: Errors
    low: Errors
    high: Errors
    without_noise: Errors
    model: LocalModel
    people: pa.Table
    rehearsals: int
    rehearsed: int


def simulated(schema: Schema) -> Schema:
    """The schema of a rehearsal: of simulated units."""
    return schema.model_copy(update={"unit": f"{STAMP} {schema.unit}"})


def rehearse(
    schema: Schema,
    epsilon: float,
    people: int,
    *,
    prior: Any = None,
    rehearsals: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
) -> Rehearsed:
    """Simulated people through the whole pipeline, with noise and without.

    Arguments:
        schema: What a record may be: a table of codes, or places.
        epsilon: Privacy loss of one person's report.
        people: How many will report; of more than 200 000 so many rehearse.
        prior: A table that is like people and not private, or a model; made-up people otherwise.
        rehearsals: Fits.
        seed: Of people and fits; not of the reports' noise.
        progress: Told how many fits are done, of how many.

    Raises:
        PrivotError: for a prior of another schema, columns that are neither codes nor places of few
            coordinates, or numbers out of range.
    """
    people = require_count("people", people, MOST_PEOPLE, "more than ever lived")
    rehearsals = require_count("rehearsals", rehearsals, 100, "enough")
    stamped = simulated(schema)
    randomizer = Randomizer.calibrate(stamped, epsilon)
    coded = randomizer.joint is not None and set(schema.coded) == set(schema.columns)
    if prior is None and not coded:
        raise PrivotError(
            "prior is missing: places cannot be made up, give a table or a model of the columns"
        )
    errors = _of_shares if coded else _of_places
    draw, law = _drawn_from(schema, prior, seed)
    rehearsed = min(people, MOST_REHEARSED)
    found, own, models, tables = [], [], [], []
    for number in range(rehearsals):
        if progress is not None:
            progress(number, rehearsals)
        tables.append(draw(rehearsed, seed + 1 + number))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of simulated people there is nothing to be warned of
            models.append(fit(randomizer.privatize(tables[-1]), seed=seed + number))
        learned = models[-1].sample(_REFERENCE if coded else _POINTS, seed=seed)
        found.append(errors(stamped, learned, law))
        own.append(errors(stamped, tables[-1], law))
    shrunk = (rehearsed / people) ** 0.5
    mean, low, high = (_over(found, how, shrunk) for how in (np.mean, min, max))
    clean = _over(own, np.mean, shrunk)
    return Rehearsed(mean, low, high, clean, models[0], tables[0], rehearsals, rehearsed)


def _over(errors: list[Errors], how: Callable[[list[float]], Any], shrunk: float) -> Errors:
    return {name: float(how([each[name] for each in errors])) * shrunk for name in errors[0]}


def _drawn_from(
    schema: Schema, prior: Any, seed: int
) -> tuple[Callable[[int, int], pa.Table], pa.Table]:
    """People of a prior by number and seed, and a table that is their law."""
    names = list(schema.table_columns)
    if prior is None:
        invented = made_up(schema, seed)
        return invented.draw, invented.draw(_REFERENCE, seed + 10**6)
    if isinstance(prior, Model):
        if list(prior.schema.table_columns) != names:
            raise PrivotError(
                f"prior is a model of the columns {', '.join(prior.schema.table_columns)}: give one of "
                f"{', '.join(names)}"
            )
        return (
            lambda num, own: prior.sample(num, seed=own),
            prior.sample(_REFERENCE, seed=seed + 10**6),
        )
    table = as_table(prior)
    schema.check_table(table)
    table = table.select(names)

    def again(num: int, own: int) -> pa.Table:
        return table.take(np.random.default_rng(own).integers(table.num_rows, size=num))

    return again, table


def _of_shares(schema: Schema, table: pa.Table, law: pa.Table) -> Errors:
    """Total variation of a table's shares from a law's."""
    codes = {n: [c.encode_codes(n, t) for t in (table, law)] for n, c in schema.coded.items()}
    sizes = {n: c.alphabet.size for n, c in schema.coded.items()}
    ones = [
        total_variation(*(np.bincount(c, minlength=sizes[n]) / len(c) for c in codes[n]))
        for n in codes
    ]
    twos = []
    for a, b in combinations(codes, 2):
        pairs = zip(codes[a], codes[b], strict=True)
        twos.append(total_variation(*(joint_shares(x, y, (sizes[a], sizes[b])) for x, y in pairs)))
    told = {"one_way": float(np.mean(ones))}
    return told | ({"two_way": float(np.mean(twos))} if twos else {})


def _of_places(schema: Schema, table: pa.Table, law: pa.Table) -> Errors:
    """Exact W₂ of 3000 points of each, means of three subsamples."""
    if len(schema.columns) > 1 or schema.images:
        raise PrivotError(
            f"columns {', '.join(schema.columns)} are not all codes, nor one place: rehearse them apart"
        )
    (name,) = schema.columns
    column = schema.point_column(name)
    ours, truth = (to_unit(column.domain, column.encode_points(name, t)) for t in (table, law))
    return {"W2": sample_distance(ours, truth)}

r"""Forecasts of a fit's error by simulation, before anyone reports.

Simulated people report at the planned ε, `fit` learns from their reports, and the model is compared with
the distribution that the people were drawn from.

**Populations** to rehearse with:

- `population_of`: what a model draws, by its distribution;
- `made_up`: random latent classes of the schema's alphabets. Scores of codes are normal, and each
  class's differ from them by normal ones, times what makes the mean distance of pairs of columns from
  independence .1 in total variation, which is what columns of a census have;
- `with_dependence`: the same around a model's shares of single columns, which it retains, for any
  strength of dependence, 0 included. The scores of a number's values are cosines of their ranks among
  all people, so that neighbors are alike.

**A fit** (`forecast_fit`). People are drawn from **a pilot's model**, or any other of the same columns;
or, where there is none, from **random populations** (`made_up`). A fit's error depends on how
strongly columns depend, beside ε, the number of people and the single columns: for fits of ten
populations with the same columns the two-way errors lie on one curve of the mean distance t of pairs
from independence. A pilot estimates single columns well, but t often poorly: its own fit shows less than
there is, and none where reports are few. So t is inferred from what the pilot's fit found, $d$, by
approximate Bayesian computation: the prior of t is uniform on $[d/1.5, \max(.2, 1.5 d)]$, since no fit
finds much more than there is; for each t on a grid a population has the pilot's single columns and
random classes (`with_dependence`), its people, as many as the pilot's, report by the pilot's
randomizer, and $d_t$ is what a fit of these finds. Its weight is

$$ w_t ∝ \exp\Bigl(−\frac{(d_t − d)^2}{2 h^2}\Bigr) , \qquad h = .02 + .1 d , $$

and 0 below 5 % of the largest. If a population whose fit agrees with the pilot's on whether there is any
dependence lies within 2 h, those that disagree have weight 0. The forecast is the weighted mean error
of fits of the planned reports. Where the pilot says nothing about t it is a mean over all; `low` and
`high` are the weighted 10 % and 90 % quantiles of these fits' errors.

A pilot that found dependence says of what kind it is, too. Samples of a model are easier to learn than
real records; those of random classes depend in ways as different as can be. Where a fit of the former,
as small as the pilot, finds all its dependence again, the forecast is the geometric mean of both errors,
and the less of it, the less they count.

**A campaign** (`simulate_campaign`). People are rows of a public or older table, drawn again with
replacement; records drawn from a model; or, where there is neither, a random population. Several fits
have fresh people and fresh noise. The error **without noise** is that of the people's own records, which
no method can beat by much. No result may be taken for an answer: the schema says one record per
*SIMULATED person*, a randomizer, a release and a model say it too, and no report of a simulation can be
collected with a real one, whose schema is another.

Privacy review: functions of public numbers, of coins, and of a model learned from reports alone or of
the prior, whose rows are drawn and shown: results are as private as that is. A table of real private
people is no prior.

References:
    Beaumont, Zhang, Balding, *Approximate Bayesian computation in population genetics* (2002).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from privot.core.errors import MOST_PEOPLE, PrivotError, require_count
from privot.evaluation.distances import independent, sample_distance, total_variation
from privot.evaluation.rehearsal import MAX_REHEARSED, Columns, sampler_of
from privot.local.classes.class_fit import fit_again
from privot.local.classes.marginals import rake
from privot.local.classes.mixture import LatentClasses, LatentClassSampler, Places
from privot.local.fitting import fit
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.models import Model
from privot.randomizer import Randomizer, Release
from privot.schema import Schema
from privot.schema.domains import Array, to_unit
from privot.tables.files import as_table

REHEARSALS = 2
STAMP = "SIMULATED"
_FITS = 3  # of a rehearsal of one population; all but the first by settings that the first chose
_MIN_FITS = 12  # over all populations that a pilot leaves possible
_STRENGTHS = 7
_MAX_STRENGTH, _MAX_RATIO = 0.2, 1.5
_WIDTH, _RELATIVE_WIDTH, _FAR = 0.02, 0.1, 2.0
_NEGLIGIBLE = 0.05  # of the largest weight
_NO_DEPENDENCE = 1e-6  # by rounding
_LEVELS = 0.1, 0.9
_NUM_REFERENCE, _NUM_POINTS = 200_000, 20_000
# Random populations: latent classes, mean dependence of pairs, cosines of a score, scales tried.
_CLASSES, _DEPENDENCE, _WAVES = 12, 0.1, 3
_SCALES = np.geomspace(0.05, 6.0, 24)
_MAX_SCALE, _HALVINGS = 8.0, 12
_TOLERANCE, _FLOOR = 1e-5, 1e-9
Progress = Callable[[int, int], None]
Errors = dict[str, float]


Marginal = Callable[[Columns], Array]


def marginal_errors(learned: Marginal, truth: Marginal, num_columns: int) -> Array:
    """Return mean total variation (2,) over columns, and over pairs; the latter NaN of one column."""
    found = []
    for several in (1, 2):
        every = combinations(range(num_columns), several)
        errors = [total_variation(learned(each), truth(each)) for each in every]
        found.append(np.mean(errors) if errors else np.nan)
    return np.array(found)


@dataclass(frozen=True, eq=False)
class Population:
    """A population whose distribution is known."""

    law: LatentClasses  # of the schema's codes
    draw: Callable[[int, int], pa.Table]  # records of so many people, by a seed

    def errors(self, model: LocalModel) -> Array:
        """Return one- and two-way error (2,) of a model of this population."""
        return marginal_errors(
            sampler_of(model).classes.marginal, self.law.marginal, len(self.law.sizes)
        )


def dependence(law: LatentClasses) -> float:
    """Return the mean total variation of pairs of columns from independence; 0 of a single column."""
    gaps = [
        total_variation(joint, independent(joint))
        for joint in map(law.marginal, combinations(range(len(law.sizes)), 2))
    ]
    return float(np.mean(gaps)) if gaps else 0.0


def population_of(model: LocalModel, schema: Schema) -> Population:
    """Return the population that a model draws, in the codes of a schema of the same columns.

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
    return Population(
        sampler_of(model).classes, lambda n, seed: model.sample(n, seed=seed).select(names)
    )


def with_dependence(model: LocalModel, strength: float, seed: int) -> LocalModel:
    """Return the model with random classes: its single columns, and dependence of about this strength.

    The strength is the mean total variation of pairs from independence, or the nearest that twelve
    classes of these columns reach.
    """
    sampler = sampler_of(model)
    own = sampler.atoms
    shares = [np.maximum(table @ own.weights, _FLOOR) for table in own.probabilities]
    alone = LatentClasses(np.ones(1), tuple(each[:, None] / each.sum() for each in shares))
    if not strength > 0:
        return replace(model, sampler=replace(sampler, atoms=alone))
    rng = np.random.default_rng([seed, 3])
    weights = rng.dirichlet(np.ones(_CLASSES))
    pairs = zip(shares, sampler.places, strict=True)
    tilts = [np.exp(_scores(each, places, rng)) for each, places in pairs]
    marginals = [each[:, 0] for each in alone.probabilities]

    def with_scale(scale: float) -> LatentClassSampler:
        tables = [p * tilt**scale for p, tilt in zip(alone.probabilities, tilts, strict=True)]
        law = LatentClasses(weights, tuple(each / each.sum(axis=0) for each in tables))
        return replace(sampler, atoms=rake(law, marginals, tolerance=_TOLERANCE))

    # What raking leaves of dependence does not grow with the scale throughout, so all are tried.
    tried = [with_scale(float(scale)) for scale in _SCALES]
    off = [abs(dependence(each.classes) - strength) for each in tried]
    return replace(model, sampler=tried[int(np.argmin(off))])


def _scores(shares: Array, places: Places, rng: np.random.Generator) -> Array:
    """Draw scores of each value in each class (values, classes), of variance about 1."""
    scores = rng.standard_normal((len(shares), _CLASSES))
    if places.cells is not None and places.cells.in_order.size:
        order = places.cells.in_order
        mass = shares[order]
        place = (np.cumsum(mass) - mass / 2) / mass.sum()
        waves = np.cos(np.pi * place[:, None] * np.arange(1, _WAVES + 1)) * (2 / _WAVES) ** 0.5
        scores[order] = waves @ rng.standard_normal((_WAVES, _CLASSES))
    return scores


def made_up(schema: Schema, seed: int) -> Population:
    """Return a population of random latent classes, whose pairs depend as a census's do."""
    rng = np.random.default_rng([seed, 1])
    sizes = [column.alphabet.size for column in schema.coded.values()]
    weights = rng.dirichlet(np.ones(_CLASSES))
    own = [rng.standard_normal((size, 1)) for size in sizes]
    apart = [rng.standard_normal((size, _CLASSES)) for size in sizes]

    def law(scale: float) -> LatentClasses:
        scores = [np.exp(base + scale * each) for base, each in zip(own, apart, strict=True)]
        return LatentClasses(weights, tuple(each / each.sum(axis=0) for each in scores))

    low, high = 0.0, _MAX_SCALE
    for _ in range(_HALVINGS if len(sizes) > 1 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if dependence(law(middle)) < _DEPENDENCE else (low, middle)
    made = law(low if len(sizes) > 1 else 1.0)

    def draw(people: int, seed: int) -> pa.Table:
        rng = np.random.default_rng([seed, 2])
        codes, columns = made.sample(people, rng), dict[str, pa.Array]()
        for index, (name, column) in enumerate(schema.coded.items()):
            columns |= column.decode_codes(name, codes[:, index], rng)
        return pa.table(columns)

    return Population(made, draw)


@dataclass(frozen=True)
class FitForecast:
    """Total variation to expect of `fit`.

    Arguments:
        one_way: Mean over columns.
        two_way: Mean over pairs of columns; None of a single one.
        rehearsals: Number of fits made.
        made_up: Whether populations were random; else single columns were a model's.
        low: The 10 % quantile of the two-way error, over all that the model leaves possible.
        high: The 90 % quantile; both None of random populations, and of a single column.
    """

    one_way: float
    two_way: float | None
    rehearsals: int
    made_up: bool
    low: float | None = None
    high: float | None = None


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
    """Forecast the error of a fit by rehearsing reports and their fit.

    A rehearsal takes as long as two fits, with `like` some five times as long.

    At most 200 000 people rehearse; beyond, errors are scaled by the root of the number.

    Arguments:
        schema: Public description of a record; all columns are reported as codes.
        epsilon: Privacy loss of one person's whole report.
        people: Number of people who will report.
        like: A model of the same columns; random populations otherwise.
        rehearsals: Number of random populations; with `like`, half as many (at least one) for each
            strength of dependence.
        seed: Seed of populations, draws and fits; not of the reports' noise.
        progress: Callback with the number of fits done, and the most there will be.

    Raises:
        PrivotError: for columns that are reported as points, a model of others, or numbers out of range.
    """
    people, rehearsals = _require_counts(people, rehearsals)
    randomizer = Randomizer.calibrate(schema, epsilon)
    if randomizer.joint is None or set(schema.coded) != set(schema.columns):
        raise PrivotError(
            "a rehearsal is of tables whose columns are all reported as codes: plan without one, which "
            "forecasts the errors of points"
        )
    rehearsal = _Rehearsal(randomizer, people, seed, progress or (lambda done, of: None))
    if like is None:
        mean, ends = rehearsal.of_made_up(rehearsals), None
    else:
        mean, ends = rehearsal.of_model(like, max(1, rehearsals // 2))
    shrunk = (rehearsal.people / people) ** 0.5
    one, two = np.minimum(mean * shrunk, 1.0)
    if np.isnan(two):
        return FitForecast(float(one), None, rehearsal.done, like is None)
    interval = (None, None) if ends is None else np.minimum(ends * shrunk, 1.0).tolist()
    return FitForecast(float(one), float(two), rehearsal.done, like is None, *interval)


def _require_counts(people: int, rehearsals: int) -> tuple[int, int]:
    people = require_count("people", people, MOST_PEOPLE, "more than ever lived")
    return people, require_count("rehearsals", rehearsals, 100, "enough")


def _fit(releases: Release | Sequence[Release], seed: int) -> LocalModel:
    """Fit without warnings, which are of no use where people are simulated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(releases, seed=seed)


class _Rehearsal:
    """Rehearsals of one plan: populations report by it, and models are fitted to their reports."""

    def __init__(self, randomizer: Randomizer, people: int, seed: int, progress: Progress):
        self.randomizer, self.seed, self.progress = randomizer, seed, progress
        self.people = min(people, MAX_REHEARSED)
        self.done, self.fits, self.drawn = 0, 0, 0

    def of_made_up(self, several: int) -> Array:
        """Return mean errors (2,) over several random populations."""
        self.fits = several
        schema = self.randomizer.schema
        invented = (made_up(schema, self.seed + number) for number in range(several))
        return np.mean([self.errors(each, _FITS).mean(axis=0) for each in invented], axis=0)

    def of_model(self, like: LocalModel, several: int) -> tuple[Array, Array]:
        """Return weighted mean errors (2,), and quantiles (2,) of the two-way one, given a model."""
        schema = self.randomizer.schema
        own, found = population_of(like, schema), dependence(sampler_of(like).classes)
        range_of = found / _MAX_RATIO, max(_MAX_STRENGTH, found * _MAX_RATIO)
        strengths = np.linspace(*range_of, _STRENGTHS).repeat(several)
        self.fits = 2 * len(strengths) + 2
        people = [
            population_of(with_dependence(like, float(t), self.seed + number), schema)
            for number, t in enumerate(strengths)
        ]
        seen = np.array([self.found_again(each, like) for each in people])
        weights = likelihood_weights(seen, found)
        possible = np.flatnonzero(weights)
        # Few populations are left where a pilot says much: then each is rehearsed more often.
        fits = -(-_MIN_FITS // len(possible))
        errors = np.concatenate([self.errors(people[number], fits) for number in possible])
        weights = (weights[possible] / weights[possible].sum() / fits).repeat(fits)
        mean, ends = weights @ errors, quantiles(errors[:, 1], weights)
        if found > _NO_DEPENDENCE:
            again = min(1.0, self.found_again(own, like) / found)
            ratio = (self.errors(own, _FITS).mean(axis=0) / mean) ** (again / 2)
            mean, ends = mean * ratio, ends * ratio[1]
        return mean, ends

    def found_again(self, population: Population, like: LocalModel) -> float:
        """Return the dependence that a fit finds in as many reports as the model had, drawn likewise."""
        people = min(int(like.made_with["num_reports"]), MAX_REHEARSED)
        model = self.fit(self.report(population, like.randomizer, people))
        return dependence(sampler_of(model).classes)

    def errors(self, population: Population, fits: int) -> Array:
        """Return errors (fits, 2) of a fit of the planned reports, and of others by its settings."""
        model = self.fit(self.report(population, self.randomizer, self.people))
        found = [population.errors(model)]
        for _ in range(fits - 1):
            more = self.report(population, self.randomizer, self.people)
            found.append(population.errors(fit_again(model, more, self.seed + self.drawn)))
        return np.array(found)

    def report(self, population: Population, by: Randomizer, people: int) -> Releases:
        """Privatize people who have not been drawn before."""
        self.drawn += 1
        return Releases.of(by.privatize(population.draw(people, self.seed + self.drawn)))

    def fit(self, releases: Releases) -> LocalModel:
        """Fit, and report progress before and after."""
        self.progress(self.done, self.fits)
        model = _fit(releases.parts, self.seed + self.done)
        self.done += 1
        self.progress(self.done, self.fits)
        return model


def likelihood_weights(seen: Array, found: float) -> Array:
    """Weight populations whose fits found dependence `seen` (R,), where the pilot's is `found`.

    Examples:
        >>> likelihood_weights(np.array([0.0, 0.0, 0.09, 0.1]), 0.1).round(2).tolist()
        [0.0, 0.0, 0.95, 1.0]
    """
    logs = -(((seen - found) / (_WIDTH + _RELATIVE_WIDTH * found)) ** 2) / 2
    alike = (seen > _NO_DEPENDENCE) == (found > _NO_DEPENDENCE)
    # That a fit finds any dependence, or none, is the most that it says, if one like it comes near.
    if logs[alike].max(initial=-np.inf) > -(_FAR**2) / 2:
        logs[~alike] = -np.inf
    weights = np.exp(logs - logs.max())
    return np.asarray(np.where(weights > _NEGLIGIBLE, weights, 0.0))


def quantiles(values: Array, weights: Array) -> Array:
    """Return the weighted 10 % and 90 % quantiles; weights add up to 1."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return np.asarray(np.interp(_LEVELS, below, values[order]))


@dataclass(frozen=True, eq=False)
class SimulatedCampaign:
    """Errors and examples of a simulated campaign.

    Arguments:
        predicted: Mean errors of fits: `one_way` and `two_way` total variation, or `W2` of places, where
            the bounds are −1 and 1.
        low: The least of them.
        high: The largest.
        without_noise: Errors of the people's own records.
        model: The first fit's; its schema says that it is simulated.
        people: Records behind the first fit's reports.
        rehearsals: Number of fits.
        rehearsed: Number of people of each; errors are scaled where more will report.
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
    """Return the schema of a simulation, whose unit says so."""
    return schema.model_copy(update={"unit": f"{STAMP} {schema.unit}"})


def simulate_campaign(
    schema: Schema,
    epsilon: float,
    people: int,
    *,
    prior: Any = None,
    rehearsals: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
) -> SimulatedCampaign:
    """Simulate a campaign from records to model, with noise and without.

    Arguments:
        schema: Public description of a record: a table of codes, or places.
        epsilon: Privacy loss of one person's report.
        people: Number of people who will report; at most 200 000 are simulated.
        prior: A table of similar records that is not private, or a model; a random population otherwise.
        rehearsals: Number of fits.
        seed: Seed of people and fits; not of the reports' noise.
        progress: Callback with the number of fits done, and of all.

    Raises:
        PrivotError: for a prior of another schema, columns that are neither codes nor places of few
            coordinates, or numbers out of range.
    """
    people, rehearsals = _require_counts(people, rehearsals)
    stamped = simulated(schema)
    randomizer = Randomizer.calibrate(stamped, epsilon)
    coded = randomizer.joint is not None and set(schema.coded) == set(schema.columns)
    if prior is None and not coded:
        raise PrivotError(
            "prior is missing: places cannot be made up, give a table or a model of the columns"
        )
    draw, law = _drawn_from(schema, prior, seed)
    errors = (_share_errors if coded else _place_errors)(stamped, law)
    rehearsed = min(people, MAX_REHEARSED)
    found, own, models, tables = [], [], [], []
    for number in range(rehearsals):
        if progress is not None:
            progress(number, rehearsals)
        tables.append(draw(rehearsed, seed + 1 + number))
        models.append(_fit(randomizer.privatize(tables[-1]), seed + number))
        found.append(errors(models[-1].sample(_NUM_REFERENCE if coded else _NUM_POINTS, seed=seed)))
        own.append(errors(tables[-1]))
    shrunk = (rehearsed / people) ** 0.5
    mean, low, high, clean = (
        {name: float(how([each[name] for each in errors])) * shrunk for name in errors[0]}
        for errors, how in ((found, np.mean), (found, min), (found, max), (own, np.mean))
    )
    return SimulatedCampaign(mean, low, high, clean, models[0], tables[0], rehearsals, rehearsed)


def _drawn_from(
    schema: Schema, prior: Any, seed: int
) -> tuple[Callable[[int, int], pa.Table], pa.Table]:
    """Return a function that draws people of a prior by number and seed, and a large table of them."""
    names = list(schema.table_columns)
    if prior is None:
        invented = made_up(schema, seed)
        return invented.draw, invented.draw(_NUM_REFERENCE, seed + 10**6)
    if isinstance(prior, Model):
        if list(prior.schema.table_columns) != names:
            raise PrivotError(
                f"prior is a model of the columns {', '.join(prior.schema.table_columns)}: give one of "
                f"{', '.join(names)}"
            )
        large = prior.sample(_NUM_REFERENCE, seed=seed + 10**6)
        return lambda num, own: prior.sample(num, seed=own), large
    table = as_table(prior)
    schema.check_table(table)
    table = table.select(names)

    def again(num: int, own: int) -> pa.Table:
        return table.take(np.random.default_rng(own).integers(table.num_rows, size=num))

    return again, table


def _share_errors(schema: Schema, law: pa.Table) -> Callable[[pa.Table], Errors]:
    """Return the function that gives the total variation of a table's shares from another's."""
    coded = schema.coded.items()

    def marginals(table: pa.Table) -> Marginal:
        codes = [(column.encode_codes(name, table), column.alphabet.size) for name, column in coded]

        def marginal(columns: Columns) -> Array:
            chosen, shape = zip(*(codes[column] for column in columns), strict=True)
            cells = np.ravel_multi_index(chosen, shape)
            return np.bincount(cells, minlength=int(np.prod(shape))) / table.num_rows

        return marginal

    truth = marginals(law)

    def errors(table: pa.Table) -> Errors:
        one, two = marginal_errors(marginals(table), truth, len(coded)).tolist()
        return {"one_way": one} | ({} if np.isnan(two) else {"two_way": two})

    return errors


def _place_errors(schema: Schema, law: pa.Table) -> Callable[[pa.Table], Errors]:
    """Return the function that gives exact W₂ of 3000 points of each, means of three subsamples."""
    if len(schema.columns) > 1 or schema.images:
        raise PrivotError(
            f"columns {', '.join(schema.columns)} are not all codes, nor one place: rehearse them apart"
        )
    (name,) = schema.columns
    column = schema.point_column(name)

    def units(table: pa.Table) -> Array:
        return to_unit(column.domain, column.encode_points(name, table))

    truth = units(law)
    return lambda table: {"W2": sample_distance(units(table), truth)}

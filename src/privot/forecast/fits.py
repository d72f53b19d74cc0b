r"""Forecast the error of a table's fit by simulation, before anyone reports.

A **rehearsal** draws people from a population of known distribution, randomizes their reports at the
planned ε, fits a model, and compares it with the population. Errors are mean total variations, of single
columns (*one-way*) and of pairs of columns (*two-way*), the mean KS of numbers, and mean differences of
their correlations and rank correlations; these three by samples. KS has a part for what reports do not
say within a cell (`privot.evaluation.number_checks`). `forecast_fit` chooses populations that are
random, or agree with a pilot; `privot.forecast.simulation` draws people from a table or model.

**Without a pilot**, populations are random (`random_population`), and the forecast is the mean error.

**With a pilot**, a model of earlier reports of the same columns, populations resemble the real one. A
pilot estimates single columns well, but underestimates the dependence between columns, and finds none if
reports are few. Two-way errors depend on a population mostly through its *dependence* t, the mean total
variation of pairs of columns from independence. So the forecast has four steps
(`_Rehearsals.with_pilot`):

1. *Populations.* For each t on a grid, random classes have the pilot's single columns and dependence t
   (`with_dependence`). With d the dependence of the pilot's fit, the grid is that of a uniform prior on
   $[d/1.5, \max(.2, 1.5 d)]$.
2. *Weights* (`likelihood_weights`; approximate Bayesian computation). The pilot is repeated on people of
   each population, as many as it had; $d_t$ is the dependence that a fit finds. The weight of t is

   $$ w_t ∝ \exp\Bigl(−\frac{(d_t − d)^2}{2 h^2}\Bigr) , \qquad h = .02 + .1 d , $$

   or 0 if it is below 5 % of the largest. A fit may find no dependence at all (d or $d_t$ is 0). If some
   t with $|d_t − d| ≤ 2 h$ agrees with the pilot on whether there is any, all others have weight 0.
3. *Errors of the planned reports*, for each t of positive weight: the weighted mean, and the weighted
   10 % and 90 % quantiles (`low`, `high`).
4. *Structure.* Random classes are harder to learn than real records, samples of the pilot's model are
   easier. The result is a weighted geometric mean of the errors for both. The weight of the pilot's
   model is r/2, with r the share of its dependence that a fit finds if its samples repeat the pilot.

**Random populations** are latent classes over the schema's alphabets. In `random_population` the
log-odds of codes are normal, and each class adds normal deviations, scaled to a dependence of .1, as in
a census. In `with_dependence` deviations of a number's values are sums of cosines of their ranks, so
that neighboring values are similar.

Privacy review: results are functions of public numbers, of fresh randomness, and of a model that was
learned from reports alone, and retain that model's guarantee.

References:
    Beaumont, Zhang, Balding, *Approximate Bayesian computation in population genetics* (2002).
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError, require_count, require_people
from privot.evaluation.distances import number_errors, number_series, total_variation
from privot.evaluation.estimates import MAX_REHEARSED, Columns, sampler_of
from privot.evaluation.number_checks import KS_OF_CELL
from privot.local.classes.class_fit import fit_again
from privot.local.classes.marginals import rake
from privot.local.classes.mixture import LatentClasses, LatentClassSampler
from privot.local.fitting import fit
from privot.local.model import LocalModel, pair_dependence
from privot.local.releases import Places, Releases, Reports
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.domains import Array

REHEARSALS = 2  # default number of random populations
_FITS = 3  # fits of one population; all but the first reuse the settings that the first chose
_MIN_FITS = 12  # least number of fits over all populations of positive weight
_STRENGTHS = 7  # size of the grid of t
_MAX_STRENGTH, _MAX_RATIO = 0.2, 1.5  # ends of the prior of t, the second relative to the pilot's
_WIDTH, _RELATIVE_WIDTH = 0.02, 0.1  # h = width + relative width · d
_FAR = 2.0  # largest |d_t − d| at which a population is near the pilot, in units of h
_NEGLIGIBLE = 0.05  # relative to the largest weight
_NO_DEPENDENCE = 1e-6  # largest dependence that counts as rounding error
_LEVELS = 0.1, 0.9  # levels of the quantiles `low` and `high`
_CLASSES = 12  # latent classes of a random population
# Dependence of `random_population`; range and number of halvings of the search for its scale.
_DEPENDENCE, _MAX_SCALE, _HALVINGS = 0.1, 8.0, 12
_COSINES = 3  # number of cosines in the deviation of a number
_SCALES = np.geomspace(0.05, 6.0, 24)  # scales of deviations that `with_dependence` tries
_NUM_SAMPLED, _SAMPLE_SEED = 20_000, 2**31 - 1  # records for errors of numbers, and their seed
_TOLERANCE, _MIN_SHARE = 1e-5, 1e-9  # of raking, and of a value
# Random streams of one seed, one for each purpose; `simulation` uses others.
_STREAM_OF_CLASSES, _STREAM_OF_RECORDS, _STREAM_OF_DEPENDENCE = 1, 2, 3
Progress = Callable[[int, int], None]  # (finished, all)
Marginal = Callable[[Columns], Array]  # shares of one column's codes, or of two columns' cells


def marginal_errors(learned: Marginal, truth: Marginal, num_columns: int) -> Array:
    """Return mean total variation (2,) over columns and over pairs; NaN if there are no pairs."""
    means = []
    for size in (1, 2):
        groups = combinations(range(num_columns), size)
        errors = [total_variation(learned(columns), truth(columns)) for columns in groups]
        means.append(np.mean(errors) if errors else np.nan)
    return np.array(means)


@dataclass(frozen=True, eq=False)
class Population:
    """Population with a known distribution."""

    law: LatentClasses  # distribution of the schema's codes
    draw: Callable[[int, int], pa.Table]  # records, given the number of people and a seed

    def errors(self, model: LocalModel) -> Array:
        """Return the errors (5,) of a model of this population, in the order of `FitForecast`."""
        sampler = sampler_of(model)
        found = marginal_errors(sampler.classes.marginal, self.law.marginal, len(self.law.sizes))
        names = [*model.schema.points]
        if not names:
            return np.array([*found, np.nan, np.nan, np.nan])
        people = (
            self.draw(_NUM_SAMPLED, _SAMPLE_SEED),
            model.sample(_NUM_SAMPLED, seed=_SAMPLE_SEED),
        )
        true, learned = (
            np.stack([*number_series(model.schema, table).values()], axis=1) for table in people
        )
        ks, gaps = number_errors(true, learned)
        cells = [
            sampler.heaviest_interval(i)[1]
            for i, column in enumerate(model.schema.coded.values())
            if column.is_number
        ]
        if len(cells) == len(ks):
            ks = np.hypot(ks, KS_OF_CELL * np.array(cells))
        upper = np.triu_indices(len(ks), 1)
        means = gaps[:, *upper].mean(axis=1) if len(ks) > 1 else [np.nan, np.nan]
        return np.array([*found, ks.mean(), *means])


def dependence(law: LatentClasses) -> float:
    """Return the mean total variation of pairs of columns from independence; 0 for a single column."""
    pairs = combinations(range(len(law.sizes)), 2)
    gaps = [pair_dependence(law.marginal(pair)) for pair in pairs]
    return float(np.mean(gaps)) if gaps else 0.0


def population_of(model: LocalModel, schema: Schema) -> Population:
    """Return the population with a model's distribution; the schema must have the model's columns.

    Raises:
        PrivotError: if the model is not of a table of codes, or has other columns or values.
    """
    if "averaged" not in model.made_with:
        raise PrivotError(
            f"like is by estimator {model.made_with['estimator']!r}, and rehearsals need tables whose "
            "columns are all reported as codes: give a model of such a table"
        )
    labels = {name: column.labels for name, column in model.schema.coded.items()}
    for name, column in schema.coded.items():
        if labels.get(name) != column.labels:
            raise PrivotError(
                f"like has no column {name!r}, or other values or bins of it: give a model of the "
                "schema's columns"
            )
    if list(labels) != list(schema.coded):
        raise PrivotError(
            f"like is of the columns {', '.join(labels)}: give a model of the schema's, in its order"
        )
    names = list(schema.table_columns)

    def draw(people: int, seed: int) -> pa.Table:
        return model.sample(people, seed=seed).select(names)

    return Population(sampler_of(model).classes, draw)


def with_dependence(model: LocalModel, strength: float, seed: int) -> LocalModel:
    """Return the model with the same single columns, but random classes of about this dependence.

    `strength` is the mean total variation of pairs from independence; if twelve classes of these columns
    cannot reach it, the result has the nearest strength that was found.
    """
    sampler = sampler_of(model)
    atoms = sampler.atoms
    shares = [np.maximum(table @ atoms.weights, _MIN_SHARE) for table in atoms.probabilities]
    marginals = [values / values.sum() for values in shares]
    if not strength > 0:
        one_class = LatentClasses(np.ones(1), tuple(values[:, None] for values in marginals))
        return replace(model, sampler=replace(sampler, atoms=one_class))
    rng = np.random.default_rng([seed, _STREAM_OF_DEPENDENCE])
    weights = rng.dirichlet(np.ones(_CLASSES))
    pairs = zip(shares, sampler.places, strict=True)
    tilts = [np.exp(_deviations(values, places, rng)) for values, places in pairs]

    def with_scale(scale: float) -> LatentClassSampler:
        tables = [p[:, None] * tilt**scale for p, tilt in zip(marginals, tilts, strict=True)]
        law = LatentClasses(weights, tuple(table / table.sum(axis=0) for table in tables))
        return replace(sampler, atoms=rake(law, marginals, tolerance=_TOLERANCE))

    # Dependence after raking is not monotone in the scale, so all scales are tried.
    samplers = [with_scale(float(scale)) for scale in _SCALES]
    errors = [abs(dependence(scaled.classes) - strength) for scaled in samplers]
    return replace(model, sampler=samplers[int(np.argmin(errors))])


def _deviations(shares: Array, places: Places, rng: np.random.Generator) -> Array:
    """Draw log-odds of each value in each class (values, classes), with variance about 1."""
    deviations = rng.standard_normal((len(shares), _CLASSES))
    if places.cells is not None and places.cells.in_order.size:
        order = places.cells.in_order
        ordered = shares[order]
        ranks = (np.cumsum(ordered) - ordered / 2) / ordered.sum()
        frequencies = np.arange(1, _COSINES + 1)
        cosines = np.cos(np.pi * ranks[:, None] * frequencies) * (2 / _COSINES) ** 0.5
        deviations[order] = cosines @ rng.standard_normal((_COSINES, _CLASSES))
    return deviations


def random_population(schema: Schema, seed: int) -> Population:
    """Return a population of random latent classes, with dependence of pairs as in a census."""
    rng = np.random.default_rng([seed, _STREAM_OF_CLASSES])
    sizes = [column.alphabet.size for column in schema.coded.values()]
    weights = rng.dirichlet(np.ones(_CLASSES))
    common = [rng.standard_normal((size, 1)) for size in sizes]
    deviations = [rng.standard_normal((size, _CLASSES)) for size in sizes]

    def with_scale(scale: float) -> LatentClasses:
        pairs = zip(common, deviations, strict=True)
        odds = [np.exp(log_odds + scale * deviation) for log_odds, deviation in pairs]
        return LatentClasses(weights, tuple(table / table.sum(axis=0) for table in odds))

    law = with_scale(1.0)
    if len(sizes) > 1:
        low, high = 0.0, _MAX_SCALE
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if dependence(with_scale(middle)) < _DEPENDENCE:
                low = middle
            else:
                high = middle
        law = with_scale(low)

    def draw(people: int, seed: int) -> pa.Table:
        rng = np.random.default_rng([seed, _STREAM_OF_RECORDS])
        codes, columns = law.sample(people, rng), dict[str, pa.Array]()
        for index, (name, column) in enumerate(schema.coded.items()):
            columns |= column.decode_codes(name, codes[:, index], rng)
        return pa.table(columns)

    return Population(law, draw)


@dataclass(frozen=True)
class FitForecast:
    """Expected error of `fit`, in total variation.

    `low` and `high` are the 10 % and 90 % quantiles of the two-way error over populations that agree
    with the pilot; None for random populations, and for a single column. Errors of numbers are None if
    there are none, those of correlations if there is one.
    """

    one_way: float  # mean error of columns
    two_way: float | None  # mean error of pairs of columns; None for a single column
    ks: float | None  # mean Kolmogorov–Smirnov distance of numbers
    correlation: float | None  # mean error of correlations of numbers
    rank_correlation: float | None  # mean error of rank correlations
    rehearsals: int  # number of fits
    made_up: bool  # whether populations were random, rather than like a pilot
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

    A rehearsal takes as long as two fits; with `like`, about five times as long. At most 200 000 people
    are simulated; for more, errors are scaled by 1/√(number of people).

    Arguments:
        schema: Public description of a record; all columns are reported as codes.
        epsilon: Privacy loss of one person's whole report.
        people: Number of people who will report.
        like: Model of a pilot with the same columns; random populations by default.
        rehearsals: Number of random populations; with `like`, half as many (at least one) for each
            strength of dependence.
        seed: Seed of populations, samples and fits; not of the reports' noise.
        progress: Callback with the number of finished fits, and the largest possible number of fits.

    Raises:
        PrivotError: if a column is reported as points, the model has other columns, or a number is out
            of range.
    """
    people, rehearsals = require_counts(people, rehearsals)
    schema.require_listed()
    randomizer = Randomizer.calibrate(schema, epsilon)
    if randomizer.joint is None or set(schema.coded) != set(schema.columns):
        raise PrivotError(
            "rehearsals need tables whose columns are all reported as codes: plan without rehearsals, "
            "which forecasts the errors of points"
        )
    run = _Rehearsals(randomizer, people, seed, progress or (lambda done, total: None))
    if like is None:
        means, ends = run.with_random_populations(rehearsals), None
    else:
        means, ends = run.with_pilot(like, max(1, rehearsals // 2))
    scale = (run.people / people) ** 0.5  # of errors, from rehearsed to all people
    errors = np.minimum(means * scale, 1.0).tolist()
    one_way, *others = errors
    two_way, ks, correlation, of_ranks = (None if np.isnan(e) else e for e in others)
    interval = (None, None)
    if ends is not None and two_way is not None:
        interval = np.minimum(ends * scale, 1.0).tolist()
    counts = run.num_done, like is None
    return FitForecast(one_way, two_way, ks, correlation, of_ranks, *counts, *interval)


def require_counts(people: int, rehearsals: int) -> tuple[int, int]:
    """Return both numbers; raise PrivotError if one is out of range."""
    people = require_people(people)
    return people, require_count("rehearsals", rehearsals, 100, "enough")


def fit_silently(releases: Reports | Sequence[Reports], seed: int) -> LocalModel:
    """Fit simulated reports without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(releases, seed=seed)


class _Rehearsals:
    """Rehearsals of one randomizer: draws of people, their reports, and fits of models to them."""

    def __init__(self, randomizer: Randomizer, people: int, seed: int, progress: Progress):
        self.randomizer, self.seed, self.progress = randomizer, seed, progress
        self.people = min(people, MAX_REHEARSED)  # number in each rehearsal of the planned reports
        self.num_done, self.num_fits = 0, 0  # finished fits, and all fits, without refits
        self.num_drawn = 0  # number of draws of people so far, each with another seed

    def with_random_populations(self, number: int) -> Array:
        """Return the mean errors (5,) over a number of random populations."""
        self.num_fits = number
        schema = self.randomizer.schema
        populations = (random_population(schema, self.seed + index) for index in range(number))
        means = [self.errors(population, _FITS).mean(axis=0) for population in populations]
        return np.mean(means, axis=0)

    def with_pilot(self, pilot: LocalModel, per_strength: int) -> tuple[Array, Array]:
        """Return the weighted mean errors (5,) and the quantiles (2,) of two-way errors.

        There are `per_strength` populations for each strength of dependence. Steps are numbered as in
        the module's docstring.
        """
        schema, strength = self.randomizer.schema, dependence(sampler_of(pilot).classes)
        # 1. Populations with the pilot's columns and a grid of dependences.
        lowest, highest = strength / _MAX_RATIO, max(_MAX_STRENGTH, strength * _MAX_RATIO)
        strengths = np.linspace(lowest, highest, _STRENGTHS).repeat(per_strength)
        self.num_fits = 2 * len(strengths) + 2
        populations = [
            population_of(with_dependence(pilot, float(t), self.seed + number), schema)
            for number, t in enumerate(strengths)
        ]
        # 2. Weights by the dependence that a fit of the pilot's reports would find.
        found = np.array([self.found_dependence(population, pilot) for population in populations])
        weights = likelihood_weights(found, strength)
        possible = np.flatnonzero(weights)
        # 3. Errors of the planned reports, with more fits of each population if few are possible.
        fits = -(-_MIN_FITS // len(possible))
        errors = np.concatenate([self.errors(populations[number], fits) for number in possible])
        weights = (weights[possible] / weights[possible].sum() / fits).repeat(fits)
        means, ends = weights @ errors, quantiles(errors[:, 1], weights)
        # 4. Errors for samples of the pilot's model, weighted by the dependence that a fit finds.
        if strength > _NO_DEPENDENCE:
            population = population_of(pilot, schema)
            share_found = min(1.0, self.found_dependence(population, pilot) / strength)
            ratios = (self.errors(population, _FITS).mean(axis=0) / means) ** (share_found / 2)
            means, ends = means * ratios, ends * ratios[1]
        return means, ends

    def found_dependence(self, population: Population, pilot: LocalModel) -> float:
        """Return the dependence that a fit finds when the pilot is repeated on a population."""
        people = min(int(pilot.made_with["num_reports"]), MAX_REHEARSED)
        model = self.fit(self.report(population, pilot.randomizer, people))
        return dependence(sampler_of(model).classes)

    def errors(self, population: Population, fits: int) -> Array:
        """Return the errors (fits, 5) of fits of planned reports, all with settings of the first."""
        model = self.fit(self.report(population, self.randomizer, self.people))
        errors = [population.errors(model)]
        for _ in range(fits - 1):
            releases = self.report(population, self.randomizer, self.people)
            refitted = fit_again(model, releases, self.seed + self.num_drawn)
            errors.append(population.errors(refitted))
        return np.array(errors)

    def report(self, population: Population, randomizer: Randomizer, people: int) -> Releases:
        """Sample people of a population with a new seed, and privatize their records."""
        self.num_drawn += 1
        records = population.draw(people, self.seed + self.num_drawn)
        return Releases.of(randomizer.privatize(records))

    def fit(self, releases: Releases) -> LocalModel:
        """Fit, and report progress before and after."""
        self.progress(self.num_done, self.num_fits)
        model = fit_silently(releases.parts, self.seed + self.num_done)
        self.num_done += 1
        self.progress(self.num_done, self.num_fits)
        return model


def likelihood_weights(found: Array, pilot: float) -> Array:
    """Return weights (R,) of populations, given their d_t (R,) and the pilot's dependence d.

    Examples:
        >>> likelihood_weights(np.array([0.0, 0.0, 0.09, 0.1]), 0.1).round(2).tolist()
        [0.0, 0.0, 0.95, 1.0]
    """
    log_weights = -(((found - pilot) / (_WIDTH + _RELATIVE_WIDTH * pilot)) ** 2) / 2
    agrees = (found > _NO_DEPENDENCE) == (pilot > _NO_DEPENDENCE)
    # If a population near the pilot agrees on whether there is any dependence, others do not count.
    if log_weights[agrees].max(initial=-np.inf) > -(_FAR**2) / 2:
        log_weights[~agrees] = -np.inf
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(np.where(weights > _NEGLIGIBLE, weights, 0.0))


def quantiles(values: Array, weights: Array) -> Array:
    """Return the weighted 10 % and 90 % quantiles (2,) of values (n,); weights (n,) add up to 1."""
    order = np.argsort(values)
    # A value is the quantile at the weight of all smaller values plus half of its own weight.
    below = np.cumsum(weights[order]) - weights[order] / 2
    return np.asarray(np.interp(_LEVELS, below, values[order]))

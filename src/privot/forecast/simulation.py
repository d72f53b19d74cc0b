r"""Forecast the errors of a campaign by simulation, with noise and without, for each place of trust.

A *place of trust* (`privot.schema.schema`) says whom people must trust: nobody (`local`), a shuffler
(`shuffled`), one of two servers (`aggregated`) or a curator (`central`).

**People** are rows of a *prior*, drawn with replacement: a public or older table, 200 000 samples of a
model or, without either, of a random population (`random_population`, `random_places`). The prior takes
the place of the population: errors are distances between what is learned and the prior. The error
**without noise** is the distance between the people's own records and the prior.

**Reports** (`local`, `shuffled`). The calibrated randomizer privatizes people's records, with the ε₀
that the number of people allows if reports are shuffled, and `privot.fit` learns from the reports.

**Sums** (`aggregated`, `central`). The estimator sees only sums over all people, plus Gaussian noise of
known standard deviation σ. If row i of the prior is drawn $w_i$ times, the sums of n people are exactly

$$ \sum_i w_i v_i , \qquad \sum_i w_i = n , $$

with $v_i$ the contribution of one record to the query (`privot.central.sums`). So w, which is
multinomial, is drawn instead of n people. A curator adds one noise, two servers add two; then the
estimator of `privot.central.fit` learns from the result.

**Accuracy.** The only bias is the prior's. W₂ is exact between subsamples of 3 000 places, and varies by
a fifth with these. So the error of a rehearsal is the mean over four pairs of subsamples. Those of all
models have the same ranks along a curve (`z_order`), so that differences between models vary less. If
more than 200 000 people report, 200 000 are simulated: total variations are scaled by the root of the
ratio; W₂ is not, and is slightly too large.

**No simulation can be mistaken for real results.** In the schema, the randomizer, the release and the
model, the unit is a *SIMULATED person*. Simulated reports cannot be collected together with real ones,
because the schemas differ.

Privacy review: results are functions of public numbers, of fresh noise, and of the prior, whose rows are
drawn and shown, so they are as private as the prior. A table of private records must not be a prior.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from privot.aggregated.shares import ROLES, Encoder, SumRule
from privot.central.fitting import kind_of_records
from privot.central.pyramid import PlaceRecords, Pyramid
from privot.central.sums import (
    Indicators,
    Integers,
    Query,
    add_indicators,
    noise_free,
    noisy_sums,
    zero_sums,
)
from privot.core.errors import PrivotError
from privot.device.device import JointPart, SplitPart
from privot.evaluation.distances import wasserstein
from privot.evaluation.estimates import MAX_REHEARSED, Columns
from privot.forecast.fits import (
    Marginal,
    Progress,
    fit_silently,
    marginal_errors,
    random_population,
    require_counts,
)
from privot.local.model import LocalModel
from privot.mechanisms.gaussian import sample_rounded_gaussian
from privot.models import Model
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.domains import Array, to_unit
from privot.schema.schema import Promise, TrustModel
from privot.tables.files import as_table
from privot.wire.report import SEAL_BYTES, Report

STAMP = "SIMULATED"
PLACES: tuple[TrustModel, ...] = get_args(TrustModel)
TRUSTED = {  # by place of trust: the trusted party, and what it is trusted with
    "local": "nobody",
    "shuffled": "a shuffler, with mixing, and the other senders",
    "aggregated": "one of two servers, with its shares",
    "central": "a curator, with all records",
}
SERVERS = {"local": 1, "shuffled": 2, "aggregated": 2, "central": 1}  # number of servers to run
_NUM_REFERENCE = 200_000  # rows of a random population, and samples of a model
_SUBSAMPLES, _POINTS = 4, 3000  # of each distance of places: pairs of subsamples, points in each
_BITS = 24  # of a place's number in `z_order`
_DELTA_TIMES_PEOPLE = 0.01  # δ n by default
# Random places, in units where bounds are ±1: number of towns, standard deviation of places in the
# largest one, and share of people who live outside towns.
_TOWNS, _TOWN_STDDEV, _COUNTRY_SHARE = 40, 0.12, 0.2
# Random streams of one seed, one for each purpose, so that no draws depend on each other.
_STREAM_OF_MODELS, _STREAM_OF_PLACES, _STREAM_OF_HALVES = 4, 5, 6
_STREAM_OF_PEOPLE, _STREAM_OF_SUBSAMPLES = 7, 8
# Total variations `one_way` and `two_way`, or `W2` of places in units where the bounds are −1 and 1.
Errors = dict[str, float]
ErrorsOf = Callable[[pa.Table, int], Errors]  # (table, seed of subsamples) → errors


@dataclass(frozen=True)
class TrustForecast:
    """Predicted errors at one ε and one place of trust.

    `report_bytes` is the number of bytes that one device sends to all servers together; None if a
    curator receives the record, or devices cannot draw the report. `refused` is the reason if noise
    would hide everything, else None.
    """

    where: str  # place of trust
    epsilon: float  # promised ε
    delta: float  # promised δ; 0 for "local"
    epsilon0: float | None = None  # ε₀ of one report by itself; None where devices add no noise
    report_bytes: int | None = None
    predicted: Errors = field(default_factory=dict)  # means over rehearsals; empty if refused
    refused: str | None = None


@dataclass(frozen=True)
class TrustPlan:
    """Predicted errors of several places of trust and ε."""

    people: int
    made_up: bool  # whether the population is random; otherwise a prior was given
    rehearsals: int  # number of rehearsals of each row
    without_noise: Errors  # of the people's own records
    rows: tuple[TrustForecast, ...]  # by ε and then in the order of `PLACES`

    @property
    def measure(self) -> str:
        """Name of the error to show: `W2` of places; of a table `two_way`, if there are pairs."""
        return next(name for name in ("W2", "two_way", "one_way") if name in self.without_noise)


def promises_at(
    epsilons: Sequence[float],
    people: int,
    *,
    where: Sequence[TrustModel] = PLACES,
    delta: float | None = None,
    floor: float | None = None,
) -> list[Promise]:
    """Return the promises of all combinations of ε and places of trust, in the order of ε.

    Arguments:
        epsilons: Promised ε.
        people: Number of people, and the least number in a batch.
        where: Places of trust.
        delta: δ of all places but `local`; by default .01 over the number of people.
        floor: Largest ε₀ of a shuffled report by itself (`Promise.floor`).

    Raises:
        PrivotError: if a number does not suit a place of trust, or no place of trust needs it.

    Examples:
        >>> [str(promise) for promise in promises_at([1.0], 1000, where=["local", "central"])]
        ['ε = 1, local', 'ε = 1, δ = 1e-05, central, at least 1,000 people']
    """
    people, _ = require_counts(people, 1)
    if delta is not None and set(where) == {"local"}:
        raise PrivotError(
            f"delta is {delta!r}, and where is 'local', where reports need none: leave it out"
        )
    if floor is not None and "shuffled" not in where:
        raise PrivotError(f"floor is {floor!r}, which only 'shuffled' has a use for: leave it out")
    delta = _DELTA_TIMES_PEOPLE / people if delta is None else delta

    def promise(epsilon: float, place: TrustModel) -> Promise:
        if place == "local":
            return Promise(epsilon)
        return Promise(epsilon, place, delta, people, floor if place == "shuffled" else None)

    return [promise(epsilon, place) for epsilon in epsilons for place in where]


def forecast_trust(
    schema: Schema,
    promises: Sequence[Promise],
    people: int,
    *,
    prior: Any = None,
    rehearsals: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrustPlan:
    """Predict the errors of what is learned under several promises, before anybody reports.

    Arguments:
        schema: One place in a box, or columns with codes alone. Its own promise is not read.
        promises: ε and places of trust to compare (`promises_at`).
        people: Number of people.
        prior: Table of similar records that is not private, or a model; a random population by default.
        rehearsals: Number of times that people are drawn, and a model is learned, for each promise.
        seed: Seed of people and fits; not of the noise.
        progress: Callback with the number of finished fits, and of all fits.

    Raises:
        PrivotError: for other schemas, a prior with other columns, a number out of range, or if noise
            would hide everything under each of the promises.
    """
    people, rehearsals = require_counts(people, rehearsals)
    plain = simulated(schema).model_copy(update={"promise": None})
    kind, lone_vector = kind_of_records(plain), plain.vectors and len(plain.columns) == 1
    if kind != "places" and (kind != "tables" or lone_vector):
        raise PrivotError(
            f"columns {', '.join(schema.columns)} are not all codes, nor one place in a box: plan "
            "without --where, or leave columns out"
        )
    reference = _reference(plain, prior, seed)
    errors_of = errors_against(plain, reference)
    rows: list[TrustForecast] = []
    for promise in promises:
        forecast = TrustForecast(promise.where, promise.epsilon, promise.delta)
        by_reports = promise.where in ("local", "shuffled")
        simulator_type = _ReportSimulator if by_reports else _SumSimulator
        try:
            simulator = simulator_type(plain, promise, people, reference)
        except PrivotError as error:  # noise would hide everything, by public numbers
            rows.append(replace(forecast, refused=str(error)))
            continue
        errors: list[Errors] = []
        for run_seed in range(seed, seed + rehearsals):
            if progress is not None:
                progress(len(rows) * rehearsals + len(errors), len(promises) * rehearsals)
            learned = errors_of(simulator.learn_and_sample(run_seed), run_seed)
            errors.append(_extrapolate(learned, simulator.num_simulated, people))
        forecast = replace(forecast, predicted=_mean(errors), epsilon0=simulator.epsilon0)
        rows.append(replace(forecast, report_bytes=simulator.report_bytes))
    if all(row.refused for row in rows):
        raise PrivotError(rows[-1].refused or "give at least one promise")
    without_noise = _errors_without_noise(plain, reference, people, rehearsals, seed)
    return TrustPlan(people, prior is None, rehearsals, without_noise, tuple(rows))


class _ReportSimulator:
    """Simulation of reports that are randomized on devices, and perhaps shuffled."""

    def __init__(self, schema: Schema, promise: Promise, people: int, reference: pa.Table) -> None:
        randomizer = Randomizer.calibrate(schema.model_copy(update={"promise": promise}))
        self.epsilon0 = randomizer.guarantee.epsilon
        self.report_bytes = _report_bytes(randomizer, promise.where)
        # Fewer people may be simulated than the promise of a shuffled batch allows.
        self._randomizer = replace(randomizer, schema=schema)
        self.num_simulated, self._reference = min(people, MAX_REHEARSED), reference

    def learn_and_sample(self, seed: int) -> pa.Table:
        """Draw people, learn from their reports, and sample the model."""
        people = _resample(self._reference, self.num_simulated, seed)
        release = self._randomizer.privatize(people)
        return fit_silently(release, seed).sample(_NUM_REFERENCE, seed=seed)


class _SumSimulator:
    """Simulation of sums with the noise of a curator, or of two servers."""

    epsilon0 = None  # devices add no noise

    def __init__(self, schema: Schema, promise: Promise, people: int, reference: pa.Table) -> None:
        kind = Encoder if promise.where == "aggregated" else SumRule
        promise = replace(promise, people=people)
        self._rule = kind.calibrate(schema.model_copy(update={"promise": promise}))
        self.num_simulated = people
        self.report_bytes: int | None = None
        self._records = self._rule.fitted.records.encode(reference)
        if isinstance(self._rule, Encoder):
            self.report_bytes = sum(map(self._rule.share_length, ROLES))

    def learn_and_sample(self, seed: int) -> pa.Table:
        """Draw how often each record occurs, learn from the noisy sums, and sample the law."""
        rule, fitted = self._rule, self._rule.fitted
        occurrences = _draw_occurrences(len(self._records[0]), self.num_simulated, seed)
        sums = weighted_sums(fitted.query, self._records, occurrences)
        for _ in range(rule.num_noises):
            sums = sums + sample_rounded_gaussian(sums.shape, rule.stddev)
        released = noisy_sums(fitted.query, sums, math.sqrt(rule.num_noises) * rule.stddev)
        rng = np.random.default_rng([seed, _STREAM_OF_MODELS])
        return pa.concat_tables(
            fitted.law(released).pieces(fitted.records, _NUM_REFERENCE, rng, {})
        )


def weighted_sums(query: Query, records: tuple[Any, ...], weights: Integers) -> Integers:
    """Return the integer sums of a query over records that occur `weights` (n,) times."""
    assert isinstance(query, Indicators)  # as those of places and tables are
    total = zero_sums(query)
    add_indicators(total, query, records, weights)
    return noise_free(query, total)[0]


def _report_bytes(randomizer: Randomizer, where: str) -> int | None:
    """Return the length of a report, sealed if it is shuffled; None if devices cannot draw it."""
    if randomizer.program is None:
        return None

    def report_length(payload: int) -> int:
        return len(Report(bytes(32), bytes(16), 0, bytes(payload)).to_bytes())

    program = randomizer.program
    plain = report_length(JointPart(program).num_bytes + SplitPart(program).num_bytes)
    return report_length(SEAL_BYTES + plain) if where == "shuffled" else plain


def random_places(schema: Schema, seed: int) -> pa.Table:
    """Draw places of people in random towns, whose sizes follow Zipf's law, and between the towns."""
    records, rng = PlaceRecords(schema), np.random.default_rng([seed, _STREAM_OF_PLACES])
    dimension, ranks = records.column.domain.dimension, np.arange(1, _TOWNS + 1)
    town = rng.choice(_TOWNS, _NUM_REFERENCE, p=1 / ranks / (1 / ranks).sum())
    centers, stddevs = rng.uniform(-1, 1, (_TOWNS, dimension)), _TOWN_STDDEV / np.sqrt(ranks)
    points = centers[town] + stddevs[town, None] * rng.standard_normal((len(town), dimension))
    country = rng.random(len(town)) < _COUNTRY_SHARE
    points[country] = rng.uniform(-1, 1, (int(country.sum()), dimension))
    return records.decode(points.clip(-1, 1))


def _draw_occurrences(count: int, people: int, seed: int) -> Integers:
    """Draw how often each of `count` rows occurs among people; equal seeds give equal draws."""
    rng = np.random.default_rng([seed, _STREAM_OF_PEOPLE])
    return rng.multinomial(people, np.full(count, 1 / count))


def _resample(table: pa.Table, people: int, seed: int) -> pa.Table:
    """Draw the records of a number of people from a table's rows, with replacement."""
    occurrences = _draw_occurrences(table.num_rows, people, seed)
    return table.take(np.repeat(np.arange(table.num_rows), occurrences))


def errors_against(schema: Schema, reference: pa.Table) -> ErrorsOf:
    """Return a function that computes the errors of a model's sample against reference records."""
    coded = kind_of_records(schema) == "tables"
    return (_share_errors if coded else _place_errors)(schema, reference)


def _errors_without_noise(
    schema: Schema, reference: pa.Table, people: int, rehearsals: int, seed: int
) -> Errors:
    """Return the mean errors of people's own records."""
    prior, compared = reference, reference
    if kind_of_records(schema) == "places":  # a point in both samples would be at distance 0
        order = np.random.default_rng([seed, _STREAM_OF_HALVES]).permutation(reference.num_rows)
        prior, compared = (reference.take(half) for half in np.array_split(order, 2))
    errors_of, errors = errors_against(schema, compared), []
    num_simulated = min(people, MAX_REHEARSED)
    for run_seed in range(seed, seed + rehearsals):
        records = _resample(prior, num_simulated, run_seed)
        errors.append(_extrapolate(errors_of(records, run_seed), num_simulated, people))
    return _mean(errors)


def _extrapolate(errors: Errors, num_simulated: int, people: int) -> Errors:
    """Scale total variations from simulated to all people; a W₂ of samples stays as it is."""
    scale = (num_simulated / people) ** 0.5
    return {name: error if name == "W2" else error * scale for name, error in errors.items()}


def _mean(errors: Sequence[Errors]) -> Errors:
    """Return the mean of each error over rehearsals."""
    return {name: float(np.mean([run[name] for run in errors])) for name in errors[0]}


@dataclass(frozen=True, eq=False)
class SimulatedCampaign:
    """Result of `simulate_campaign`: errors by name, a model, and the people's records."""

    predicted: Errors  # means over fits
    low: Errors  # smallest errors of fits
    high: Errors  # largest errors of fits
    without_noise: Errors  # of the people's own records
    model: LocalModel  # of the first fit; its schema says that it is simulated
    people: pa.Table  # records of the people whose reports the first fit used
    rehearsals: int  # number of fits


def simulated(schema: Schema) -> Schema:
    """Return the schema with a unit that marks it as simulated."""
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
    """Simulate a campaign of local reports, from records to model, with noise and without.

    Arguments:
        schema: Public description of a record: a table of codes, or places.
        epsilon: Privacy loss of one person's report.
        people: Number of people who will report; at most 200 000 are simulated.
        prior: Table of similar records that is not private, or a model; a random population by default.
        rehearsals: Number of fits.
        seed: Seed of people and fits; not of the reports' noise.
        progress: Callback with the number of finished fits, and of all fits.

    Raises:
        PrivotError: if the prior has another schema, or is missing for places; if columns are neither
            all codes nor one place, or a number is out of range.
    """
    people, rehearsals = require_counts(people, rehearsals)
    stamped = simulated(schema)
    randomizer = Randomizer.calibrate(stamped, epsilon)
    coded = randomizer.joint is not None and set(schema.coded) == set(schema.columns)
    if prior is None and not coded:
        raise PrivotError(
            "prior is missing: only tables of codes have a default, so give a table or a model of places"
        )
    reference = _reference(schema, prior, seed)
    errors_of = (_share_errors if coded else _place_errors)(stamped, reference)
    rehearsed = min(people, MAX_REHEARSED)
    with_noise, without_noise, fits = [], [], []
    for number in range(rehearsals):
        if progress is not None:
            progress(number, rehearsals)
        records = _resample(reference, rehearsed, seed + number)
        model = fit_silently(randomizer.privatize(records), seed + number)
        learned = errors_of(model.sample(_NUM_REFERENCE, seed=seed), number)
        with_noise.append(_extrapolate(learned, rehearsed, people))
        without_noise.append(_extrapolate(errors_of(records, number), rehearsed, people))
        fits.append((model, records))
    low = {name: min(errors[name] for errors in with_noise) for name in with_noise[0]}
    high = {name: max(errors[name] for errors in with_noise) for name in with_noise[0]}
    predicted, clean = _mean(with_noise), _mean(without_noise)
    return SimulatedCampaign(predicted, low, high, clean, *fits[0], rehearsals)


def _reference(schema: Schema, prior: Any, seed: int) -> pa.Table:
    """Return the rows that take the place of the population: the prior's, or a large sample."""
    names, seed = list(schema.table_columns), seed + 10**6  # far from the seeds of the rehearsals
    if prior is None and kind_of_records(schema) == "places":
        return random_places(schema, seed)
    if prior is None:
        return random_population(schema, seed).draw(_NUM_REFERENCE, seed)
    if isinstance(prior, Model):
        if list(prior.schema.table_columns) != names:
            raise PrivotError(
                f"prior is a model of the columns {', '.join(prior.schema.table_columns)}: give one of "
                f"{', '.join(names)}"
            )
        return prior.sample(_NUM_REFERENCE, seed=seed)
    table = as_table(prior)
    schema.check_table(table)
    return table.select(names)


def _share_errors(schema: Schema, reference: pa.Table) -> ErrorsOf:
    """Return a function that computes the total variation between a table and a reference."""
    coded = schema.coded.items()

    def marginals(table: pa.Table) -> Marginal:
        codes = [(column.encode_codes(name, table), column.alphabet.size) for name, column in coded]

        def marginal(columns: Columns) -> Array:
            chosen, shape = zip(*(codes[column] for column in columns), strict=True)
            cells = np.ravel_multi_index(chosen, shape)
            return np.bincount(cells, minlength=int(np.prod(shape))) / table.num_rows

        return marginal

    truth = marginals(reference)

    def errors(table: pa.Table, seed: int) -> Errors:
        one_way, two_way = marginal_errors(marginals(table), truth, len(coded)).tolist()
        return {"one_way": one_way} | ({} if np.isnan(two_way) else {"two_way": two_way})

    return errors


def _place_errors(schema: Schema, reference: pa.Table) -> ErrorsOf:
    """Return a function that computes the mean W₂ of subsamples of a table and of a reference."""
    if len(schema.columns) > 1 or schema.images:
        raise PrivotError(
            f"columns {', '.join(schema.columns)} are not all codes, nor one place: rehearse them apart"
        )
    (name,) = schema.columns
    column = schema.point_column(name)

    def ordered_points(table: pa.Table) -> Array:
        units = to_unit(column.domain, column.encode_points(name, table))
        return units[z_order(units)]

    truth = ordered_points(reference)

    def errors(table: pa.Table, seed: int) -> Errors:
        points, distances = ordered_points(table), []
        rng = np.random.default_rng([seed, _STREAM_OF_SUBSAMPLES])
        for _ in range(_SUBSAMPLES):
            rows = (rng.random(_POINTS) * len(points)).astype(np.int64)
            truth_rows = (rng.random(_POINTS) * len(truth)).astype(np.int64)
            distances.append(wasserstein(points[rows], truth[truth_rows]))
        return {"W2": float(np.mean(distances))}

    return errors


def z_order(points: Array) -> Integers:
    """Return the order (n,) of points of [−1, 1]^d along the Z-order curve.

    If two samples of nearly the same distribution are in this order, points of equal relative rank are
    nearly equal. If two distances use the same random ranks, their difference varies by an eighth of the
    variation of either.
    """
    depth = _BITS // points.shape[1]
    cells = np.floor((points + 1) * 2.0 ** (depth - 1)).astype(np.int64).clip(0, 2**depth - 1)
    order = np.argsort(Pyramid(points.shape[1], depth).cell_numbers(cells), kind="stable")
    return order.astype(np.int64)

r"""Drift of points: the density on a grid at every time, by a local likelihood of all waves' reports.

For a **reach** h the density $e^g$ at time t maximizes the penalized local likelihood of the counts n of
reports y in waves s,

$$ \sum_s e^{−|t − s| / h} \sum_y n_{sy} \ln (A_s e^g)_y − \frac{λ}{2} \int |∇(g − g')|^2 , $$

with weights scaled so that the nearest wave has weight 1. For h = 0 only the nearest wave counts, and
for h = ∞ all waves count equally. The reference $e^{g'}$ is the density at t for the next **longer
reach**, with ten times the λ of a single release; for h = ∞ it is uniform, with the λ of a single
release. So the estimate from distant waves holds wherever reports of near waves do not contradict it: a
corner that was always empty stays empty because of the reports of all waves, and a town that moves is
located by the reports of a few. Every reach is about half the longer one. A reach is skipped if its
weights are nearly those of the longer one, because its reports would count twice. In one dimension,
where the penalty is learned by evidence, the reference is uniform for all h.

**The reach is learned.** Half of the reports of some waves are held out. For every h, densities are
fitted to the other reports of the same and earlier waves. The longest h is chosen whose log-likelihood
of the held-out reports is within one standard error of the best. Later waves are not used, because the
newest wave has no later ones.

**Trends.** The distribution is divided into pieces: a range and the rest, or overlapping bumps of a
number. Each wave's likelihood is expanded in the shares of the pieces, around the density of its time,
and all waves together give paths of the shares, with bands (`paths`).

Privacy: functions of reports' counts, hence post-processing. The model stores the counts of reports.

References:
    Tibshirani, Hastie, *Local likelihood estimation* (1987); Loader, *Local regression and likelihood*
    (1999). Hjort, Glad, *Nonparametric density estimation with a parametric start* (1995).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.local.deconvolution import STRENGTH, average_by_evidence, deconvolve
from privot.local.grid_channels import (
    GridChannel,
    GridDensity,
    GridSampler,
    StackedChannel,
    allowed_nodes,
    grid_channel,
)
from privot.local.waves.paths import ShareCoordinates, ShareLikelihood, ShareRatio, ShareSeries
from privot.models import Component
from privot.randomizer import Counts, Randomizer
from privot.randomizer.reports.counts import IdSample
from privot.schema.columns.column import RANGE
from privot.schema.domains import Array, from_unit

REACHES = (np.inf, 25.0, 12.0, 6.0, 3.0, 1.5, 0.7, 0.0)  # h, in mean distances between waves
_MIN_WEIGHT = 1e-3  # least weight of a wave; smaller weights are set to 0
_HELD_OUT, _MAX_WAVES = 0.5, 5  # held-out share of a wave; most waves with held-out reports
_STIFFNESS_RATIO = 10.0  # λ for finite h, relative to λ of one release
_MAX_WEIGHT_RATIO = 0.8  # a reach is skipped if its total weight exceeds this share of the last
_TOLERANCE, _ROUGH_TOLERANCE = 0.01, 0.1  # tolerances of ascents, in nats; rough to choose h
_NUM_PIECES, _MIN_MASS = 12, 1e-6  # number of pieces of a number, and their least mass
_RANDOMIZER_KEY = "asked"  # key of `randomizer_of_wave` in stored models


def wave_weights(ages: Array, reach: float) -> Array:
    """Return the weights (T,) of waves of these ages (T,), relative to the nearest wave.

    Ages and the reach are in one unit of time. Later waves, of negative age, have weight 0; for reach 0,
    all waves but the nearest have weight 0.

    Examples:
        >>> wave_weights(np.array([5.0, 3.0, 1.0]), 2.0).round(3)
        array([0.135, 0.368, 1.   ])
    """
    nearest = ages[ages >= 0].min()
    if reach == 0.0:
        return np.asarray(ages == nearest, np.float64)
    weights = np.exp(-np.maximum(ages - nearest, 0.0) / reach)
    return np.where((ages < 0) | (weights < _MIN_WEIGHT), 0.0, weights)


def longest_likely_reach(logs: Sequence[Array], counts: Array) -> int:
    """Return the index of the first density whose likelihood is within a standard error of the best.

    The standard error is of the difference in log-likelihood, a sum over independent reports.

    Arguments:
        logs: For each density, longest reach first, the log-likelihoods of distinct reports (reports,).
        counts: Number of people who sent each report (reports,).
    """
    best = logs[int(np.argmax([counts @ density_logs for density_logs in logs]))]
    for number, density_logs in enumerate(logs):
        loss = best - density_logs
        total = counts @ loss
        mean = total / max(counts.sum(), 1.0)
        if total <= (counts @ (loss - mean) ** 2) ** 0.5:
            return number
    raise AssertionError("the best is no less likely than itself")


@dataclass(frozen=True, eq=False)
class LocalLikelihood:
    """Local likelihood of the reports of T waves on one grid."""

    times: Array  # times of the waves (T,)
    counts: Sequence[Array]  # counts of each wave's reports
    channel_of_wave: Sequence[int]  # number of each wave's channel
    channels: Sequence[GridChannel]  # channels of the randomizers, whose counts are not used
    nodes: NDArray[np.bool_]  # mask of the allowed nodes (K+1, …, K+1)

    def density(self, time: float, reach: float) -> GridDensity:
        """Fit the density at a time to the waves before and after it; `reach` is in units of time."""
        # In one dimension no density is the reference of another, so only one reach is fitted.
        reaches = self._reaches(reach) if self.nodes.ndim > 1 else [reach]
        ages = np.abs(self.times - time)
        *_, weights = self._densities(ages, self.counts, reaches, _TOLERANCE, self._pooled)
        return GridDensity.of(weights, self.nodes.shape)

    def choose_reach(self, seed: int) -> float:
        """Choose the reach in units of time by the likelihood of held-out reports."""
        rng, last = np.random.default_rng([seed, 7]), len(self.times) - 1
        waves = np.unique(np.linspace(min(last, max(1, last // 3)), last, _MAX_WAVES).round())
        held_out: dict[int, Array] = {}
        for wave in waves.astype(int).tolist():
            drawn = rng.binomial(self.counts[wave].astype(np.int64), _HELD_OUT)
            held_out[wave] = drawn.astype(np.float64)
        counts = np.concatenate(list(held_out.values()))
        by_wave = (self._held_out_logs(wave, part) for wave, part in held_out.items())
        logs = [np.concatenate(wave_logs) for wave_logs in zip(*by_wave, strict=True)]
        return self._reaches(0.0)[longest_likely_reach(logs, counts)]

    def _held_out_logs(self, wave: int, held_out: Array) -> Iterator[Array]:
        """Yield, by reach, log-likelihoods of a wave's reports by densities without `held_out` ones."""
        counts, channel = list(self.counts), self.channels[self.channel_of_wave[wave]]
        counts[wave] = counts[wave] - held_out
        ages, reaches = self.times[wave] - self.times, self._reaches(0.0)
        for weights in self._densities(ages, counts, reaches, _ROUGH_TOLERANCE):
            yield np.asarray(np.log(channel.forward(weights)))

    def _densities(
        self,
        ages: Array,
        counts: Sequence[Array],
        reaches: Sequence[float],
        tolerance: float,
        pooled: Array | None = None,
    ) -> Iterator[Array]:
        """Yield the flat weights of the nodes for each reach, longest first.

        `pooled` are the weights for an infinite reach, if they are known.
        """
        density, total = pooled, float(len(ages))  # the last fit, and the sum of its waves' weights
        for reach in reaches:
            weights = wave_weights(ages, reach)
            if density is None or weights.sum() <= _MAX_WEIGHT_RATIO * total:
                density, total = self._fit(weights, counts, density, tolerance), weights.sum()
            yield density

    def _reaches(self, last: float) -> list[float]:
        """Return all reaches above `last`, in units of time and decreasing, and then `last`."""
        unit = float(np.ptp(self.times)) / max(len(self.times) - 1, 1) or 1.0
        return [*(reach * unit for reach in REACHES if reach * unit > last), last]

    @cached_property
    def _pooled(self) -> Array:
        """Flat weights of the nodes, fitted to all waves with equal weights."""
        return self._fit(np.ones(len(self.times)), self.counts, None, _TOLERANCE)

    def _fit(
        self, weights: Array, counts: Sequence[Array], reference: Array | None, tolerance: float
    ) -> Array:
        """Fit the flat weights of nodes to the sum of the waves' counts, weighted by `weights` (T,)."""
        channels = []
        for number, channel in enumerate(self.channels):
            waves = np.flatnonzero((np.array(self.channel_of_wave) == number) & (weights > 0))
            if waves.size:
                total = np.sum([weights[wave] * counts[wave] for wave in waves.tolist()], axis=0)
                channels.append(replace(cast("Any", channel), counts=total))  # it is a dataclass
        channel = channels[0] if len(channels) == 1 else StackedChannel(channels)
        if self.nodes.ndim == 1:
            return average_by_evidence(channel).weights
        strength = STRENGTH * (1.0 if reference is None else _STIFFNESS_RATIO)
        return deconvolve(
            channel, self.nodes, strength=strength, reference=reference, tolerance=tolerance
        ).weights


@dataclass(frozen=True, eq=False)
class GridDrift(Component):
    """Drift of one column of points: counts of all waves, and the reach of the local likelihood."""

    sampler: GridSampler  # sampler of all waves together, whose grid is used at all times
    times: Array  # times of the waves (T,)
    counts: tuple[Array, ...]  # counts of each wave's reports, in the order of its channel
    randomizer_of_wave: tuple[int, ...]  # number of each wave's randomizer
    randomizers: tuple[Randomizer, ...]  # distinct randomizers of the waves
    reach: float  # h, in the unit of `times`
    kind: ClassVar[str] = "grid"

    @classmethod
    def of(cls, sampler: GridSampler, waves: Sequence[Counts], times: Array, seed: int) -> Self:
        """Count the waves' reports, and learn the reach from held-out reports."""
        drift = cls(sampler, times[:0], (), (), (), 0.0)
        for wave, time in zip(waves, times, strict=True):
            drift = drift.with_wave(wave, float(time))
        return replace(drift, reach=drift._likelihood.choose_reach(seed))

    def with_wave(self, wave: Counts, time: float) -> Self:
        """Return the drift with one wave appended."""
        fingerprint = wave.randomizer.fingerprint
        known = {randomizer.fingerprint: randomizer for randomizer in self.randomizers}
        known.setdefault(fingerprint, wave.randomizer)
        return replace(
            self,
            times=np.append(self.times, time),
            counts=(*self.counts, self._channel_of(wave).counts),
            randomizer_of_wave=(*self.randomizer_of_wave, list(known).index(fingerprint)),
            randomizers=tuple(known.values()),
        )

    def at(self, time: float) -> GridSampler:
        """Return the sampler of a time."""
        return replace(self.sampler, density=self._likelihood.density(time, self.reach))

    @cached_property
    def _likelihood(self) -> LocalLikelihood:
        """Local likelihood of the waves' reports on the sampler's grid."""
        randomizer, name = self.sampler.randomizer, self.sampler.name
        domain = randomizer.schema.point_column(name).domain
        reported = randomizer.mechanisms[name].report_domain(domain)
        nodes = allowed_nodes(reported, len(self.sampler.density.weights) - 1)
        return LocalLikelihood(
            self.times, self.counts, self.randomizer_of_wave, self._channels, nodes
        )

    @cached_property
    def _channels(self) -> list[GridChannel]:
        """Channels of the randomizers, without counts."""
        return [self._channel_of(Counts(made_by, {}, IdSample())) for made_by in self.randomizers]

    def _channel_of(self, wave: Counts) -> GridChannel:
        """Build the channel of a wave on the sampler's grid."""
        spacings = len(self.sampler.density.weights) - 1
        channel = grid_channel([wave], spacings)
        if channel.spacings != spacings:
            raise PrivotError(
                f"a wave's reports are on a grid of {channel.spacings} spacings, the others' on one of "
                f"{spacings}: give waves whose mechanisms agree, or fit them again together"
            )
        return channel

    def ratio(self, column: str, value: Any) -> ShareRatio:
        """Return the share of people with a value, or the mean of a number: see `WaveModel.trend`.

        Both are ratios of two sums over people. The weight of a piece in a sum is the mean, over the
        people in the piece, of the term that is summed.
        """
        numbers = self._numbers_at_nodes(column)
        if value is None:
            pieces = _overlapping_pieces(numbers, self.sampler.density.flat)
            # A missing number adds 0 to both sums.
            terms = np.nan_to_num(numbers), (~np.isnan(numbers)).astype(np.float64)
        else:
            low, high = _read_range(column, value)
            inside = ((numbers >= low) & (numbers <= high)).astype(np.float64)
            pieces = np.stack([inside, 1.0 - inside], axis=1)
            terms = inside, np.ones(len(inside))
        laws, shares, likelihoods = [], [], []  # laws are P(weight | piece), (k, pieces)
        for wave, time in enumerate(self.times):
            joint = self.at(float(time)).density.flat[:, None] * pieces
            shares.append(joint.sum(axis=0))
            laws.append(joint / np.maximum(shares[-1], 1e-300))
            likelihoods.append(self._share_likelihood(wave, laws[-1], shares[-1]))
        coordinates = ShareCoordinates.of(np.mean(shares, axis=0), likelihoods)
        around = [coordinates.coordinates_of(wave_shares) for wave_shares in shares]
        series = ShareSeries.of(coordinates, self.times, likelihoods, around)
        numerator, denominator = (np.array([term @ law for law in laws]) for term in terms)
        return ShareRatio(series, numerator, denominator)

    def series_of(self, column: str, value: Any) -> ShareSeries:
        """Return the series of the shares of a number's pieces, or of a range and the rest."""
        return self.ratio(column, value).series

    def _share_likelihood(self, wave: int, law: Array, shares: Array) -> ShareLikelihood:
        """Expand a wave's log-likelihood around `shares` (pieces,).

        `law` has the probability of each weight in each piece (k, pieces).
        """
        channel = self._channels[self.randomizer_of_wave[wave]]
        report_given_piece = np.stack([channel.forward(piece) for piece in law.T], axis=1)
        sent = self.counts[wave] > 0
        people, probabilities = self.counts[wave][sent], report_given_piece[sent]
        slopes = probabilities / (probabilities @ shares)[:, None]  # of ln P(report)
        return ShareLikelihood(people @ slopes, (slopes * people[:, None]).T @ slopes)

    def _numbers_at_nodes(self, column: str) -> Array:
        """Return a table column's numbers at all nodes, then NaN if values may be missing (k,)."""
        name, randomizer = self.sampler.name, self.sampler.randomizer
        declared, density = randomizer.schema.point_column(name), self.sampler.density
        axes = [np.linspace(-1, 1, len(density.weights))] * density.weights.ndim
        nodes = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        units = randomizer.mechanisms[name].places(nodes, declared.domain)
        points = from_unit(declared.domain, units)
        if density.missing:
            points = np.vstack([points, np.full(points.shape[1], np.nan)])
        table = declared.decode_points(name, points)
        kind = table[column].type
        if not pa.types.is_floating(kind) and not pa.types.is_integer(kind):
            raise PrivotError(
                f"column {column!r} has no numbers to average: compare samples of two times"
            )
        return np.array(table[column].to_numpy(zero_copy_only=False), np.float64)

    def fields(self) -> dict[str, Any]:
        return {
            _RANDOMIZER_KEY: list(self.randomizer_of_wave),
            "reach": self.reach,
            "randomizers": [randomizer.to_json() for randomizer in self.randomizers],
        }

    def arrays(self) -> dict[str, Array]:
        return {"times": self.times} | {f"counts_{i}": wave for i, wave in enumerate(self.counts)}

    @classmethod
    def build(
        cls, sampler: GridSampler, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Self:
        randomizer_of_wave = tuple(fields[_RANDOMIZER_KEY])
        counts = tuple(arrays[f"counts_{i}"] for i in range(len(randomizer_of_wave)))
        randomizers = tuple(map(Randomizer.from_json, fields["randomizers"]))
        reach = float(fields["reach"])
        return cls(sampler, arrays["times"], counts, randomizer_of_wave, randomizers, reach)


def _read_range(column: str, value: Any) -> tuple[float, float]:
    """Read the ends of a range of numbers, such as `"30..40"`."""
    low, _, high = str(value).partition(RANGE)
    try:
        return float(low), float(high)
    except ValueError:
        raise PrivotError(
            f"value {value!r} is no range of column {column!r}: write two numbers, as 30{RANGE}40"
        ) from None


def _overlapping_pieces(numbers: Array, masses: Array) -> Array:
    """Return hat functions (k, pieces) of the share of people below a number, with equal distances.

    Missing numbers are the last piece. Pieces with hardly any of the `masses` (k,) are left out.
    """
    present = ~np.isnan(numbers)
    ranks = np.unique(numbers[present], return_inverse=True)[1]
    mass = np.bincount(ranks, masses[present])
    places = (np.cumsum(mass) - mass / 2) / mass.sum() * (_NUM_PIECES - 1)
    distances = np.abs(places[ranks][:, None] - np.arange(_NUM_PIECES))
    pieces = np.zeros((len(numbers), _NUM_PIECES + 1))
    pieces[present, :_NUM_PIECES] = np.maximum(1 - distances, 0.0)
    pieces[~present, _NUM_PIECES] = 1.0
    return pieces[:, pieces.T @ masses > _MIN_MASS]

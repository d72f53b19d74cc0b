r"""Points that drift: at every time a density on a grid, by a local likelihood of all waves' reports.

For a **reach** h the density $e^g$ at time t maximizes the local likelihood of the counts n of reports y
in waves s,

$$ \sum_s e^{−|t − s| / h} \sum_y n_{sy} \ln (A_s e^g)_y − \frac{λ}{2} \int |∇(g − g')|^2 , $$

the nearest wave's weight being 1: where h is 0 the nearest wave counts alone, where h is infinite all
count alike. The penalty is around $e^{g'}$, the density at t of a **longer reach**, with ten times the λ
of one release, and around a flat one, as of a release, where h is infinite. So the estimate of distant
waves holds until near ones contradict it, at each place separately: a corner that was always empty stays
empty by the reports of all waves, while a town that moves is located by those of a few. Each reach
halves the one before, or nearly; one that weighs waves much as the one before is skipped, since its
reports would count twice. On a line, where the penalty is learned by evidence, it is around a flat
density at every h.

**The last h is learned**: half of some waves' reports are held out; of all h whose densities of the
other reports, earlier waves' included, make them most likely, or less so by at most a standard error,
the longest is taken. Later waves are left out, as they are where a wave is the newest.

A **trend** needs no reach: around the densities of all times, each wave's likelihood of one share or of
a number's shares is transformed to paths (`paths`), with their bands. Adding a wave costs a few fits.

Privacy: functions of reports' counts, hence post-processing. The model stores the counts of reports.

References:
    Tibshirani, Hastie, *Local likelihood estimation* (1987); Loader, *Local regression and likelihood*
    (1999). Hjort, Glad, *Nonparametric density estimation with a parametric start* (1995).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.local.grid.channels import (
    GridChannel,
    GridDensity,
    GridSampler,
    StackedChannel,
    grid_channel,
)
from privot.local.grid.deconvolution import STRENGTH, average_by_evidence, deconvolve
from privot.local.grid.grid_fit import allowed_nodes
from privot.local.waves.paths import ShareCoordinates, ShareLikelihood, ShareRatio, ShareSeries
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import ReportTable
from privot.schema.domains import Array, from_unit
from privot.schema.sampling import RANGE

REACHES = (np.inf, 25.0, 12.0, 6.0, 3.0, 1.5, 0.7, 0.0)  # h in waves
_MIN_WEIGHT = 1e-3  # of a wave, below which it is 0
_HELD_OUT, _MAX_WAVES = 0.5, 5
_STIFFNESS_RATIO = 10.0  # λ around a longer reach, over that of one release
_MAX_WEIGHT_RATIO = 0.8  # of the waves' total weights of one reach and the next longer one
_TOLERANCE, _ROUGH_TOLERANCE = 0.01, 0.1  # nats gained by a step; while reaches are compared
_NUM_HATS, _MIN_MASS = 12, 1e-6
_NUMBERS = "asked"  # the key of `randomizer_of_wave` in stored models


def wave_weights(ages: Array, reach: float) -> Array:
    """Weigh waves by age: 1 for the nearest, 0 for later ones and, where h is 0, for all others.

    Examples:
        >>> wave_weights(np.array([5.0, 3.0, 1.0]), 2.0).round(3)
        array([0.135, 0.368, 1.   ])
        >>> wave_weights(np.array([4.0, 2.5, 0.5, -0.1]), 0.0)
        array([0., 0., 1., 0.])
    """
    nearest = ages[ages >= 0].min()
    if reach == 0.0:
        return np.asarray(ages == nearest, np.float64)
    found = np.exp(-np.maximum(ages - nearest, 0.0) / reach)
    return np.where((ages < 0) | (found < _MIN_WEIGHT), 0.0, found)


def longest_likely_reach(logs: Sequence[Array], people: Array) -> int:
    """Choose the first density under which reports are nearly as likely as under the best one.

    Nearly: within a standard error of the mean difference a person. Without reports all are equal.

    Examples:
        >>> likely = np.log([0.5, 0.5])
        >>> logs = [likely - [0.1, -0.09], likely, likely - 1.0]
        >>> [longest_likely_reach(logs, np.array([n, n])) for n in (10.0, 9000.0)]
        [0, 1]

    Arguments:
        logs: Log-likelihoods of distinct reports (reports,) by each density, the longest reach first.
        people: Counts of the reports (reports,).
    """
    best = logs[int(np.argmax([people @ each for each in logs]))]
    for number, each in enumerate(logs):
        loss = best - each
        total = people @ loss
        mean = total / max(people.sum(), 1.0)
        if total <= (people @ (loss - mean) ** 2) ** 0.5:
            return number
    raise AssertionError("the best is no less likely than itself")


@dataclass(frozen=True, eq=False)
class LocalLikelihood:
    """Local likelihood of waves' reports, on one grid."""

    times: Array  # times of the waves (T,)
    counts: Sequence[Array]  # each wave's counts of reports
    channel_of_wave: Sequence[int]  # number of each wave's channel
    channels: Sequence[GridChannel]  # channels of the randomizers; their own counts are not used
    nodes: NDArray[np.bool_]  # mask of the allowed nodes (K+1, …, K+1)

    def density(self, time: float, reach: float) -> GridDensity:
        """Fit the density of a time to waves before and after it; `reach` in units of time."""
        # On a line no penalty is around another density: only the last reach is fitted.
        reaches = self._reaches(reach) if self.nodes.ndim > 1 else [reach]
        ages = np.abs(self.times - time)
        *_, flat = self._densities(ages, self.counts, reaches, self._pooled)
        return GridDensity.of(flat, self.nodes.shape)

    def choose_reach(self, seed: int) -> float:
        """Choose the longest reach under which held-out reports are nearly as likely as the best."""
        rng, last = np.random.default_rng([seed, 7]), len(self.times) - 1
        tried = np.unique(np.linspace(min(last, max(1, last // 3)), last, _MAX_WAVES).round())
        held = {
            int(t): rng.binomial(self.counts[int(t)].astype(np.int64), _HELD_OUT).astype(np.float64)
            for t in tried
        }
        people = np.concatenate(list(held.values()))
        by_wave = (self._held_out_logs(wave, out) for wave, out in held.items())
        logs = [np.concatenate(found) for found in zip(*by_wave, strict=True)]
        return self._reaches(0.0)[longest_likely_reach(logs, people)]

    def _held_out_logs(self, wave: int, held: Array) -> Iterator[Array]:
        """Yield by reach the log-likelihoods of a wave's reports, given the others up to then."""
        counts, channel = list(self.counts), self.channels[self.channel_of_wave[wave]]
        counts[wave] = counts[wave] - held
        for density in self._densities(self.times[wave] - self.times, counts, self._reaches(0.0)):
            yield np.asarray(np.log(channel.forward(density)))

    def _densities(
        self,
        ages: Array,
        counts: Sequence[Array],
        reaches: Sequence[float],
        pooled: Array | None = None,
    ) -> Iterator[Array]:
        """Yield the density of each reach, penalized around the one before; `pooled` is all waves'."""
        tolerance = _ROUGH_TOLERANCE if pooled is None else _TOLERANCE
        heavy, found = (np.inf, None) if pooled is None else (len(ages), pooled)
        for reach in reaches:
            weights = wave_weights(ages, reach)
            if found is None or weights.sum() <= _MAX_WEIGHT_RATIO * heavy:
                heavy, found = weights.sum(), self._fit(weights, counts, found, tolerance)
            yield found

    def _reaches(self, last: float) -> list[float]:
        """Return reaches in units of time, from the longest to the last."""
        unit = float(np.ptp(self.times)) / max(len(self.times) - 1, 1) or 1.0
        return [*(each * unit for each in REACHES if each * unit > last), last]

    @cached_property
    def _pooled(self) -> Array:
        return self._fit(np.ones(len(self.times)), self.counts, None, _TOLERANCE)

    def _fit(
        self, weights: Array, counts: Sequence[Array], reference: Array | None, tolerance: float
    ) -> Array:
        """Fit flat weights of nodes to weighted counts."""
        channels = []
        for number, own in enumerate(self.channels):
            used = np.flatnonzero((np.array(self.channel_of_wave) == number) & (weights > 0))
            if used.size:
                channel: Any = own  # of either kind, which are data classes
                total = np.sum([weights[int(i)] * counts[int(i)] for i in used], axis=0)
                channels.append(replace(channel, counts=total))
        channel = channels[0] if len(channels) == 1 else StackedChannel(channels)
        if self.nodes.ndim == 1:
            return average_by_evidence(channel).weights
        strength = STRENGTH * (1.0 if reference is None else _STIFFNESS_RATIO)
        return deconvolve(
            channel, self.nodes, strength=strength, reference=reference, tolerance=tolerance
        ).weights


@dataclass(frozen=True, eq=False)
class GridDrift:
    """Counts of every wave, and how far in time they reach."""

    sampler: GridSampler  # sampler of all waves together; its grid is that of every time
    times: Array  # times of the waves (T,)
    counts: tuple[Array, ...]  # each wave's counts of the reports of its randomizer
    randomizer_of_wave: tuple[int, ...]  # number of each wave's randomizer
    randomizers: tuple[Randomizer, ...]  # distinct randomizers
    reach: float  # h, in units of time
    kind: ClassVar[str] = "grid"

    @classmethod
    def of(cls, sampler: GridSampler, waves: Sequence[Release], times: Array, seed: int) -> Self:
        """Count waves, and learn the reach from held-out reports."""
        first = cls(sampler, times[:0], (), (), (), 0.0)
        for wave, time in zip(waves, times, strict=True):
            first = first.with_wave(wave, float(time))
        return replace(first, reach=first._likelihood.choose_reach(seed))

    def with_wave(self, release: Release, time: float) -> Self:
        """Append a wave."""
        own = release.randomizer.fingerprint
        known = {each.fingerprint: each for each in self.randomizers}
        known.setdefault(own, release.randomizer)
        return replace(
            self,
            times=np.append(self.times, time),
            counts=(*self.counts, self._channel_of(release).counts),
            randomizer_of_wave=(*self.randomizer_of_wave, list(known).index(own)),
            randomizers=tuple(known.values()),
        )

    def at(self, time: float) -> GridSampler:
        """Return the density of a time."""
        return replace(self.sampler, density=self._likelihood.density(time, self.reach))

    @cached_property
    def _likelihood(self) -> LocalLikelihood:
        randomizer, name = self.sampler.randomizer, self.sampler.name
        domain = randomizer.schema.point_column(name).domain
        nodes = allowed_nodes(
            randomizer.mechanisms[name].report_domain(domain), len(self.sampler.density.weights) - 1
        )
        return LocalLikelihood(
            self.times, self.counts, self.randomizer_of_wave, self._channels, nodes
        )

    @cached_property
    def _channels(self) -> list[GridChannel]:
        """Channels of the randomizers, without counts."""
        return [self._channel_of(_empty_release(each)) for each in self.randomizers]

    def _channel_of(self, release: Release) -> GridChannel:
        most = len(self.sampler.density.weights) - 1
        channel = grid_channel([release], self.sampler.name, most)
        if channel.spacings != most:
            raise PrivotError(
                f"a wave's reports are on a grid of {channel.spacings} spacings, the others' on one of "
                f"{most}: give waves whose mechanisms agree, or fit them again together"
            )
        return channel

    def ratio(self, column: str, value: Any) -> ShareRatio:
        """Return the share of people with a value, or the mean of a number: see `WaveModel.trend`."""
        numbers, inside = self._node_values(column, value)
        if inside is None:
            hats = _hats(numbers, self.sampler.density.flat)
            terms = np.nan_to_num(numbers), (~np.isnan(numbers)).astype(np.float64)
        else:
            hats = np.stack([inside, 1.0 - inside], axis=1)
            terms = inside, np.ones(len(inside))
        laws, shares, likelihoods = [], [], []
        for wave, time in enumerate(self.times):
            joint = self.at(float(time)).density.flat[:, None] * hats
            shares.append(joint.sum(axis=0))
            laws.append(joint / np.maximum(shares[-1], 1e-300))
            likelihoods.append(self._share_likelihood(wave, laws[-1], shares[-1]))
        coordinates = ShareCoordinates.of(np.mean(shares, axis=0), likelihoods)
        around = [coordinates.coordinates_of(each) for each in shares]
        series = ShareSeries.of(coordinates, self.times, likelihoods, around)
        return ShareRatio(series, *(np.array([term @ law for law in laws]) for term in terms))

    def series_of(self, column: str, value: Any) -> ShareSeries:
        """Return the series of a number's bumps, or of a range alone."""
        return self.ratio(column, value).series

    def _share_likelihood(self, wave: int, law: Array, shares: Array) -> ShareLikelihood:
        channel = self._channels[self.randomizer_of_wave[wave]]
        laws = np.stack([channel.forward(piece) for piece in law.T], axis=1)
        sent = self.counts[wave] > 0
        people, ratios = self.counts[wave][sent], laws[sent] / (laws[sent] @ shares)[:, None]
        return ShareLikelihood(people @ ratios, (ratios * people[:, None]).T @ ratios)

    def _node_values(self, column: str, value: Any) -> tuple[Array, Array | None]:
        """Return a column's number at every node, NaN if missing, and which nodes have the value."""
        name, randomizer = self.sampler.name, self.sampler.randomizer
        own, density = randomizer.schema.point_column(name), self.sampler.density
        axes = [np.linspace(-1, 1, len(density.weights))] * density.weights.ndim
        nodes = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
        points = from_unit(own.domain, randomizer.mechanisms[name].places(nodes, own.domain))
        if density.missing:
            points = np.vstack([points, np.full(points.shape[1], np.nan)])
        table = own.decode_points(name, points)
        kind = table[column].type
        if not pa.types.is_floating(kind) and not pa.types.is_integer(kind):
            raise PrivotError(
                f"column {column!r} has no numbers to follow: sample two times instead"
            )
        numbers = np.array(table[column].to_numpy(zero_copy_only=False), np.float64)
        if value is None:
            return numbers, None
        low, _, high = str(value).partition(RANGE)
        try:
            ends = float(low), float(high)
        except ValueError:
            raise PrivotError(
                f"value {value!r} is no range of column {column!r}: write two numbers, as 30{RANGE}40"
            ) from None
        return numbers, ((numbers >= ends[0]) & (numbers <= ends[1])).astype(np.float64)

    def fields(self) -> dict[str, Any]:
        """Return plain values, for storage."""
        return {
            _NUMBERS: list(self.randomizer_of_wave),
            "reach": self.reach,
            "randomizers": [each.to_json() for each in self.randomizers],
        }

    def arrays(self) -> dict[str, Array]:
        """Return arrays by name, for storage."""
        return {"times": self.times} | {f"counts_{i}": each for i, each in enumerate(self.counts)}

    @classmethod
    def build(
        cls, sampler: GridSampler, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Self:
        """Restore the drift that `fields` and `arrays` describe."""
        numbers, reach = tuple(fields[_NUMBERS]), float(fields["reach"])
        counts = tuple(arrays[f"counts_{i}"] for i in range(len(numbers)))
        randomizers = tuple(map(Randomizer.from_json, fields["randomizers"]))
        return cls(sampler, arrays["times"], counts, numbers, randomizers, reach)


def _hats(numbers: Array, masses: Array) -> Array:
    """Return bumps of a number (nodes, hats) at equal distances of ranks, 1 in sum at each node."""
    there = ~np.isnan(numbers)
    order = np.unique(numbers[there], return_inverse=True)[1]
    own = np.bincount(order, masses[there])
    places = (np.cumsum(own) - own / 2) / own.sum() * (_NUM_HATS - 1)
    found = np.zeros((len(numbers), _NUM_HATS + 1))
    found[there, :_NUM_HATS] = np.maximum(
        1 - np.abs(places[order][:, None] - np.arange(_NUM_HATS)), 0.0
    )
    found[~there, _NUM_HATS] = 1.0
    return found[:, found.T @ masses > _MIN_MASS]


def _empty_release(randomizer: Randomizer) -> Release:
    """Return a release of one empty report: a release has at least one."""
    nothing = {name: pa.nulls(1, kind) for name, kind in randomizer.types.items()}
    return Release(ReportTable.of(pa.table(nothing)), randomizer)

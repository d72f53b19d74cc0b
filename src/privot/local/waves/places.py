"""Points that move: at every time a density on a grid, by a local likelihood of all waves' reports.

How far in time it reaches is learned from held-out reports (`local_likelihood`). A wave more costs a few
fits.

A **trend** needs no reach: around the densities of all times, what each wave says of one share or of a
number's shares is turned to paths (`paths`), with their bands.

Privacy: functions of reports, hence post-processing. The model keeps how often each report came.
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
from privot.local.waves.paths import Course, Followed, Told, basis_of
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import ReportTable
from privot.schema.domains import Array, from_unit
from privot.schema.sampling import RANGE

# How far in time waves are learned from each other: what is tried, and the rule that chooses.
#
# A **local likelihood** weighs waves by $e^{−|t − s| / h}$: where h is 0 the nearest wave counts
# alone, where h is infinite all count alike.
#
# Privacy: functions of reports, hence post-processing.
#
# References:
#     Tibshirani, Hastie, *Local likelihood estimation* (1987); Loader, *Local regression and likelihood*
#     (1999).


REACHES = (np.inf, 25.0, 12.0, 6.0, 3.0, 1.5, 0.7, 0.0)  # h in waves
_LEAST = 1e-3  # weight of a wave that counts


def weigh(ages: Array, reach: float) -> Array:
    """Weights of waves so long ago: 1 of the nearest, 0 of later ones and, where h is 0, of others.

    Examples:
        >>> weigh(np.array([5.0, 3.0, 1.0]), 2.0).round(3)
        array([0.135, 0.368, 1.   ])
        >>> weigh(np.array([4.0, 2.5, 0.5, -0.1]), 0.0)
        array([0., 0., 1., 0.])
    """
    nearest = ages[ages >= 0].min()
    if reach == 0.0:
        return np.asarray(ages == nearest, np.float64)
    found = np.exp(-np.maximum(ages - nearest, 0.0) / reach)
    return np.where((ages < 0) | (found < _LEAST), 0.0, found)


def farthest(logs: Sequence[Array], people: Array) -> int:
    """The first of some densities under which reports are as likely as under the best, or nearly.

    Nearly is by no more than a standard error of the mean difference, each person told once. Of nobody,
    all are as likely.

    Examples:
        >>> likely = np.log([0.5, 0.5])
        >>> farthest([likely - [0.1, -0.09], likely, likely - 1.0], np.array([10.0, 10.0]))
        0
        >>> farthest([likely - [0.1, -0.09], likely, likely - 1.0], np.array([9000.0, 9000.0]))
        1

    Arguments:
        logs: Log-likelihoods of distinct reports (reports,) by each density, the farthest reach first.
        people: How often each came (reports,).
    """
    best = logs[int(np.argmax([people @ each for each in logs]))]
    for number, each in enumerate(logs):
        loss = best - each
        total = people @ loss
        mean = total / max(people.sum(), 1.0)
        if total <= (people @ (loss - mean) ** 2) ** 0.5:
            return number
    raise AssertionError("the best is no less likely than itself")


# At every time a density on a grid that waves near it are of, and how far in time is near.
#
# For a reach h the density $e^g$ at time t maximizes the **local likelihood** of the counts n of
# reports y in waves s,
#
# $$ \sum_s e^{−|t − s| / h} \sum_y n_{sy} \ln (A_s e^g)_y − \frac{λ}{2} \int |∇(g − g')|^2 , $$
#
# the nearest wave's weight being 1. The penalty is around $e^{g'}$, the density at t of a **longer
# reach**, with ten times the λ of one release, and around a flat one, as of a release, where h is
# infinite. What waves from afar say is believed until those nearby say otherwise, at each place for
# itself: a corner where nobody ever was stays empty by the reports of all waves, while a town that
# moves is told by those of a few. Each reach halves the one before, or nearly; one that weighs waves
# much as the one before is left out, since its reports would count twice.
#
# **The last h is learned**: half of some waves' reports are held out; of all h under whose densities
# of the other reports, earlier waves' included, they are most likely, or less so by no more than a
# standard error, the longest is taken (`reach`). Later waves are left out, as they are where a wave
# is the newest.
#
# On a line, where the penalty is learned by evidence, it is around a flat density at every h.
#
# Privacy: functions of reports' counts, hence post-processing.
#
# References:
#     Tibshirani, Hastie, *Local likelihood estimation* (1987); Loader, *Local regression and likelihood*
#     (1999). Hjort, Glad, *Nonparametric density estimation with a parametric start* (1995).


_HELD_OUT, _MOST_WAVES = 0.5, 5
_STIFFER = 10.0  # λ around a longer reach, over that of one release
_FEWER = 0.8  # of the weights' sum for the longer reach: that of a shorter one is no more
_TOLERANCE, _ROUGH_TOLERANCE = 0.01, 0.1  # nats that a step gains; while reaches are compared


@dataclass(frozen=True, eq=False)
class LocalLikelihood:
    """Reports of waves, on one grid.

    Arguments:
        times: Of the waves (T,).
        counts: Of each wave, how often each report came.
        asked: Of each wave, the number of its channel.
        channels: Of the waves' randomizers; their own counts are not looked at.
        nodes: Which nodes may hold any (K+1, …, K+1).
    """

    times: Array
    counts: Sequence[Array]
    asked: Sequence[int]
    channels: Sequence[GridChannel]
    nodes: NDArray[np.bool_]

    def density(self, time: float, reach: float) -> GridDensity:
        """Of a time, from waves before and after it; `reach` in units of time."""
        # On a line no density is around another: the last reach is all that is fitted.
        reaches = self._reaches(reach) if self.nodes.ndim > 1 else [reach]
        ages = np.abs(self.times - time)
        *_, flat = self._densities(ages, self.counts, reaches, self._together)
        inner = flat[: self.nodes.size].reshape(self.nodes.shape)
        return GridDensity(inner, float(flat[self.nodes.size :].sum()))

    def learned(self, seed: int) -> float:
        """The longest of all reaches under which held-out reports are likely enough.

        That is as likely as under the best, within a standard error of the difference.
        """
        rng, last = np.random.default_rng([seed, 7]), len(self.times) - 1
        tried = np.unique(np.linspace(min(last, max(1, last // 3)), last, _MOST_WAVES).round())
        held = {
            int(t): rng.binomial(self.counts[int(t)].astype(np.int64), _HELD_OUT).astype(np.float64)
            for t in tried
        }
        people = np.concatenate(list(held.values()))
        told = zip(*(self._told(wave, out) for wave, out in held.items()), strict=True)
        return self._reaches(0.0)[farthest([np.concatenate(found) for found in told], people)]

    def _told(self, wave: int, held: Array) -> Iterator[Array]:
        """Log-likelihoods of a wave's reports, by each reach of what is not held out and of earlier."""
        counts, channel = list(self.counts), self.channels[self.asked[wave]]
        counts[wave] = counts[wave] - held
        for density in self._densities(self.times[wave] - self.times, counts, self._reaches(0.0)):
            yield np.asarray(np.log(channel.forward(density)))

    def _densities(
        self,
        ages: Array,
        counts: Sequence[Array],
        reaches: Sequence[float],
        together: Array | None = None,
    ) -> Iterator[Array]:
        """Of each reach, around the one before; that of all waves may be known."""
        tolerance = _ROUGH_TOLERANCE if together is None else _TOLERANCE
        heavy, found = (np.inf, None) if together is None else (len(ages), together)
        for reach in reaches:
            weights = weigh(ages, reach)
            if found is None or weights.sum() <= _FEWER * heavy:
                heavy, found = weights.sum(), self._fit(weights, counts, found, tolerance)
            yield found

    def _reaches(self, last: float) -> list[float]:
        """In units of time, from the longest to the last."""
        unit = float(np.ptp(self.times)) / max(len(self.times) - 1, 1) or 1.0
        return [*(each * unit for each in REACHES if each * unit > last), last]

    @cached_property
    def _together(self) -> Array:
        return self._fit(np.ones(len(self.times)), self.counts, None, _TOLERANCE)

    def _fit(
        self, weights: Array, counts: Sequence[Array], reference: Array | None, tolerance: float
    ) -> Array:
        """Flat weights of nodes, by weighed counts."""
        channels = []
        for number, own in enumerate(self.channels):
            asked = np.array(self.asked) == number
            used = np.flatnonzero(asked & (weights > 0))
            if used.size:
                channel: Any = own  # of either kind, which are data classes
                total = np.sum([weights[int(i)] * counts[int(i)] for i in used], axis=0)
                channels.append(replace(channel, counts=total))
        channel = channels[0] if len(channels) == 1 else StackedChannel(channels)
        if self.nodes.ndim == 1:
            return average_by_evidence(channel).weights
        strength = STRENGTH * (1.0 if reference is None else _STIFFER)
        return deconvolve(
            channel, self.nodes, strength=strength, reference=reference, tolerance=tolerance
        ).weights


_HATS, _RAREST = 12, 1e-6


@dataclass(frozen=True, eq=False)
class GridDrift:
    """Counts of every wave, and how far in time they reach.

    Arguments:
        sampler: Of all waves together; its grid is that of every time.
        times: Of the waves (T,).
        counts: Of each wave, how often each report of its randomizer came.
        asked: Of each wave, the number of its randomizer.
        randomizers: Distinct ones.
        reach: h, in units of time.
    """

    sampler: GridSampler
    times: Array
    counts: tuple[Array, ...]
    asked: tuple[int, ...]
    randomizers: tuple[Randomizer, ...]
    reach: float
    kind: ClassVar[str] = "grid"

    @classmethod
    def of(cls, sampler: GridSampler, waves: Sequence[Release], times: Array, seed: int) -> Self:
        """What waves say, with a reach learned from held-out reports."""
        first = cls(sampler, times[:0], (), (), (), 0.0)
        for wave, time in zip(waves, times, strict=True):
            first = first.with_wave(wave, float(time))
        return replace(first, reach=first._likelihood.learned(seed))

    def with_wave(self, release: Release, time: float) -> Self:
        """One wave later."""
        prints = [each.fingerprint for each in self.randomizers]
        if release.randomizer.fingerprint not in prints:
            prints.append(release.randomizer.fingerprint)
        more = self.randomizers + (release.randomizer,) * (len(prints) - len(self.randomizers))
        return type(self)(
            self.sampler,
            np.append(self.times, time),
            (*self.counts, self._channel_of(release).counts),
            (*self.asked, prints.index(release.randomizer.fingerprint)),
            more,
            self.reach,
        )

    def at(self, time: float) -> GridSampler:
        """The density of a time."""
        return GridSampler(
            self._likelihood.density(time, self.reach), self.sampler.name, self.sampler.randomizer
        )

    @cached_property
    def _likelihood(self) -> LocalLikelihood:
        return LocalLikelihood(
            self.times,
            self.counts,
            self.asked,
            self._channels,
            allowed_nodes(self._domain, len(self.sampler.density.weights) - 1),
        )

    @cached_property
    def _domain(self) -> Any:
        randomizer, name = self.sampler.randomizer, self.sampler.name
        column = randomizer.schema.point_column(name)
        return randomizer.mechanisms[name].report_domain(column.domain)

    @cached_property
    def _channels(self) -> list[GridChannel]:
        """Of the randomizers, without counts."""
        return [self._channel_of(_silent(each)) for each in self.randomizers]

    def _channel_of(self, release: Release) -> GridChannel:
        most = len(self.sampler.density.weights) - 1
        channel = grid_channel([release], self.sampler.name, most)
        if channel.spacings != most:
            raise PrivotError(
                f"a wave's reports are on a grid of {channel.spacings} spacings, the others' on one of "
                f"{most}: give waves whose mechanisms agree, or fit them again together"
            )
        return channel

    def follow(self, column: str, value: Any) -> Followed:
        """The share of people with a value, or the mean of a number: see `WaveModel.trend`."""
        numbers, inside = self._of_nodes(column, value)
        there = (~np.isnan(numbers)).astype(np.float64)
        if inside is None:
            part, hats = np.nan_to_num(numbers), _hats(numbers, _flat(self.sampler.density))
        else:
            part, there = inside, np.ones(len(inside))
            hats = np.stack([inside, 1.0 - inside], axis=1)
        laws, shares, told = [], [], []
        for wave, time in enumerate(self.times):
            joint = _flat(self.at(float(time)).density)[:, None] * hats
            shares.append(joint.sum(axis=0))
            laws.append(joint / np.maximum(shares[-1], 1e-300))
            told.append(self._told(wave, laws[-1], shares[-1]))
        moving = basis_of(np.mean(shares, axis=0), told)
        around = [moving.path_to(each) for each in shares]
        course = Course.of(moving, self.times, told, around)
        return Followed(course, *(np.array([w @ law for law in laws]) for w in (part, there)))

    def law_of(self, column: str, value: Any) -> Course:
        """Shares of a number's bumps, or of a range alone."""
        return self.follow(column, value).course

    def _told(self, wave: int, law: Array, shares: Array) -> Told:
        channel = self._channels[self.asked[wave]]
        laws = np.stack([channel.forward(piece) for piece in law.T], axis=1)
        sent = self.counts[wave] > 0
        people, ratios = self.counts[wave][sent], laws[sent] / (laws[sent] @ shares)[:, None]
        return Told(people @ ratios, (ratios * people[:, None]).T @ ratios)

    def _of_nodes(self, column: str, value: Any) -> tuple[Array, Array | None]:
        """A column's number at every node, NaN of missing values, and which of them have a value."""
        name, randomizer = self.sampler.name, self.sampler.randomizer
        own, density = randomizer.schema.point_column(name), self.sampler.density
        axes = [np.linspace(-1, 1, len(density.weights))] * density.weights.ndim
        nodes = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
        points = from_unit(own.domain, randomizer.mechanisms[name].places(nodes, own.domain))
        if density.missing:
            points = np.vstack([points, np.full(points.shape[1], np.nan)])
        table = own.decode_points(name, points)
        if not pa.types.is_floating(table[column].type) and not pa.types.is_integer(
            table[column].type
        ):
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
        """Plain values that it is built from."""
        asked = {"asked": list(self.asked), "reach": self.reach}
        return asked | {"randomizers": [each.to_json() for each in self.randomizers]}

    def arrays(self) -> dict[str, Array]:
        """Its numbers, by name."""
        return {"times": self.times} | {f"counts_{i}": each for i, each in enumerate(self.counts)}

    @classmethod
    def build(
        cls, sampler: GridSampler, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Self:
        """What `fields` and `arrays` took apart."""
        counts = tuple(arrays[f"counts_{i}"] for i in range(len(fields["asked"])))
        randomizers = tuple(map(Randomizer.from_json, fields["randomizers"]))
        asked, reach = tuple(fields["asked"]), float(fields["reach"])
        return cls(sampler, arrays["times"], counts, asked, randomizers, reach)


def _flat(density: GridDensity) -> Array:
    """Weights as channels take them."""
    weights = density.weights.ravel()
    return np.append(weights, density.missing) if density.missing else weights


def _hats(numbers: Array, masses: Array) -> Array:
    """Bumps of a number (nodes, hats) at equal distances of people's ranks, 1 in sum at each node."""
    there = ~np.isnan(numbers)
    order = np.unique(numbers[there], return_inverse=True)[1]
    own = np.bincount(order, masses[there])
    places = (np.cumsum(own) - own / 2) / own.sum() * (_HATS - 1)
    found = np.zeros((len(numbers), _HATS + 1))
    found[there, :_HATS] = np.maximum(1 - np.abs(places[order][:, None] - np.arange(_HATS)), 0.0)
    found[~there, _HATS] = 1.0
    return found[:, found.T @ masses > _RAREST]


def _silent(randomizer: Randomizer) -> Release:
    """A report that says nothing: a release has one at least."""
    nothing = {name: pa.nulls(1, kind) for name, kind in randomizer.types.items()}
    return Release(ReportTable.of(pa.table(nothing)), randomizer)

"""Points that move: at every time a density on a grid, by a local likelihood of all waves' reports.

How far in time it reaches is learned from held-out reports (`local_likelihood`). A wave more costs a few
fits.

A **trend** needs no reach: around the densities of all times, what each wave says of one share or of a
number's shares is turned to paths (`paths`), with their bands.

Privacy: functions of reports, hence post-processing. The model keeps how often each report came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.local.grid.channels import GridChannel, grid_channel
from privot.local.grid.density import GridDensity, GridSampler
from privot.local.grid.grid_fit import allowed_nodes
from privot.local.waves.local_likelihood import LocalLikelihood
from privot.local.waves.shares import Course, Followed, Told, basis_of
from privot.release import Randomizer, Release
from privot.release.reports.rows import ReportTable
from privot.schema import Array, from_unit
from privot.schema.rules.where import RANGE

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

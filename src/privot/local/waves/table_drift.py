r"""Tables that drift: latent classes of all waves, raked to each wave's columns.

Columns move, odds ratios are constant. A report of several columns has the likelihood $L = 1 + g \sum_v
A_{yv} p(v)$; by the share of code k of one of them its slope is $g b_k / L$,

$$ b_k = \sum_{v : v_c = k} A_{yv}\, p(v | v_c = k) , $$

the other columns having their law given k, at this wave. So a column's slopes have mean 0 where the
wave's law is right, whatever the dependence.

Privacy: functions of reports, hence post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from privot.core.errors import PrivotError
from privot.local.classes.counts import Factor, Ints, Query, count_releases
from privot.local.classes.curves import Curve, Pieces
from privot.local.classes.marginals import rake
from privot.local.classes.mixture import LatentClasses, LatentClassSampler, Places
from privot.local.releases import Atoms, Releases
from privot.local.waves.paths import (
    Paths,
    ShareCoordinates,
    ShareLikelihood,
    ShareRatio,
    ShareSeries,
)
from privot.randomizer import Release
from privot.schema.domains import Array
from privot.schema.sampling import values_of

_RAKING_TOLERANCE = 1e-7
_MAX_ROUNDS, _SETTLED = 8, 0.1  # change of paths, in standard errors, at which rounds end
_MAX_ATOMIC = 12  # atoms up to which each of a number is a piece


@dataclass(frozen=True, eq=False)
class TableDrift:
    """Classes of all waves together, and one series per column."""

    sampler: LatentClassSampler  # sampler of all waves together
    series: tuple[ShareSeries, ...] = ()  # series of the columns; none before the first wave
    kind: ClassVar[str] = LatentClassSampler.kind

    @classmethod
    def of(
        cls, sampler: LatentClassSampler, waves: Sequence[Release], times: Array, seed: int
    ) -> Self:
        """Fit the columns' series to waves; nothing is drawn, so the seed is not used."""
        empty = cls(sampler)
        pooled = [each.shares for each in empty.pieces]
        likelihoods = [empty.likelihoods(wave, pooled) for wave in waves]
        columns = range(len(pooled))
        coordinates = [
            ShareCoordinates.of(pooled[i], [each[i] for each in likelihoods]) for i in columns
        ]
        around = [np.zeros((len(waves), each.basis.shape[1])) for each in coordinates]
        for number in range(_MAX_ROUNDS):
            if number:  # around the paths of the round before
                ways = [
                    [one.at(u) for u in path] for one, path in zip(coordinates, around, strict=True)
                ]
                likelihoods = [
                    empty.likelihoods(wave, [way[t] for way in ways])
                    for t, wave in enumerate(waves)
                ]
            series = tuple(
                ShareSeries.of(coordinates[i], times, [each[i] for each in likelihoods], around[i])
                for i in columns
            )
            before, around = around, [each.paths.mean for each in series]
            if all(map(_settled, before, series)):
                break
        return cls(sampler, series)

    @property
    def times(self) -> Array:
        """Times of the waves (T,)."""
        return self.series[0].paths.times

    @cached_property
    def pieces(self) -> list[Pieces]:
        """Pieces of each column: its values, or bumps of a number with many."""
        atoms = self.sampler.atoms
        owns = [table @ atoms.weights for table in atoms.probabilities]
        return [_pieces(*each) for each in zip(owns, self.sampler.places, strict=True)]

    def at(self, time: float) -> LatentClassSampler:
        """Return the classes of a time."""
        return self._moved([each.coordinates.at(each.paths.at(time)[0]) for each in self.series])

    def with_wave(self, release: Release, time: float) -> Self:
        """Append a wave, expanded around the last one's shares, then around those that result."""
        series, lasts = self.series, [each.paths.mean[-1] for each in self.series]
        for _ in range(_MAX_ROUNDS):
            pairs = zip(self.series, lasts, strict=True)
            likelihoods = self.likelihoods(release, [each.coordinates.at(u) for each, u in pairs])
            series = tuple(
                each.with_wave(time, own, u)
                for each, own, u in zip(self.series, likelihoods, lasts, strict=True)
            )
            before, lasts = lasts, [each.paths.mean[-1] for each in series]
            if all(map(_settled, before, series)):
                break
        return type(self)(self.sampler, series)

    def ratio(self, column: str, value: Any) -> ShareRatio:
        """Return the share of people with a value, or the mean of a number: see `WaveModel.trend`."""
        place = list(self.sampler.schema.coded).index(column)
        own, series = self.sampler.places[place], self.series[place]
        named = self.sampler.schema.coded[column]
        if value is None:
            cells = own.cells
            if cells is None or named.in_rules != "number":
                raise PrivotError(
                    f"column {column!r} has no mean: give a value, whose share is estimated"
                )
            middles = (cells.low + cells.high - cells.integer * (cells.high > cells.low)) / 2
            there = ~np.isnan(middles)
            numerator, denominator = np.where(there, middles, 0.0), there.astype(np.float64)
        else:
            wanted = {code for each in values_of(value) for code in named.find_codes(column, each)}
            numerator = np.isin(own.codes, sorted(wanted)).astype(np.float64)
            denominator = np.ones(len(numerator))
        law, ones = self.pieces[place].law, np.ones((len(self.times), 1))
        return ShareRatio(series, ones * (numerator @ law), ones * (denominator @ law))

    def series_of(self, column: str, value: Any) -> ShareSeries:
        """Return the column's series, whatever the value."""
        return self.series[list(self.sampler.schema.coded).index(column)]

    def _moved(self, shares: Sequence[Array]) -> LatentClassSampler:
        pairs = zip(self.pieces, shares, strict=True)
        atoms = rake(
            self.sampler.atoms, [p.law @ own for p, own in pairs], tolerance=_RAKING_TOLERANCE
        )
        return LatentClassSampler(atoms, self.sampler.places, self.sampler.schema)

    def likelihoods(self, release: Release, shares: Sequence[Array]) -> list[ShareLikelihood]:
        """Compute a wave's likelihood of every column's shares around given ones.

        Raises:
            PrivotError: for a wave that reports columns in other alphabets than those before.
        """
        atoms, releases = self._moved(shares).atoms, Releases((release,))
        queries, groups = count_releases(releases)
        owners = [
            _own_atoms(place, releases.atoms[name], name)
            for place, name in zip(self.sampler.places, self.sampler.schema.coded, strict=True)
        ]
        queries = [Query(each.column, each.law[:, owners[each.column]]) for each in queries]
        sizes = [len(each.shares) for each in self.pieces]
        found = [ShareLikelihood(np.zeros(size), np.zeros((size, size))) for size in sizes]
        for group in groups:
            for place, factor in enumerate(group.factors):
                rows = factor.likelihood.shape[0]
                counts = np.bincount(group.answers[:, place], group.counts, rows).astype(float)
                found_of_factor = _factor_likelihoods(factor, counts, queries, atoms)
                for query, slope, information in found_of_factor:
                    law = query.law @ self.pieces[query.column].law
                    found[query.column].slope[:] += law.T @ slope
                    found[query.column].information[:] += law.T @ information @ law
        return found

    def fields(self) -> dict[str, Any]:
        """Return plain values, for storage."""
        return {}

    def arrays(self) -> dict[str, Array]:
        """Return arrays by name, for storage."""
        found: dict[str, Array] = {"times": self.times}
        for number, series in enumerate(self.series):
            found |= {
                f"shares_{number}": series.coordinates.shares,
                f"basis_{number}": series.coordinates.basis,
                f"slopes_{number}": series.paths.slopes,
                f"precisions_{number}": series.paths.precisions,
            }
        return found

    @classmethod
    def build(
        cls, sampler: LatentClassSampler, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> Self:
        """Restore the drift that `fields` and `arrays` describe."""
        series = (
            ShareSeries(
                ShareCoordinates(arrays[f"shares_{i}"], arrays[f"basis_{i}"]),
                Paths(arrays["times"], arrays[f"slopes_{i}"], arrays[f"precisions_{i}"]),
            )
            for i in range(len(sampler.places))
        )
        return cls(sampler, tuple(series))


def _settled(before: Array, series: ShareSeries) -> bool:
    """Say whether paths, or their last points, moved by a tenth of a standard error at most."""
    spread = np.sqrt(np.diagonal(series.paths.covariance, axis1=1, axis2=2)).T
    last = slice(-1, None) if before.ndim == 1 else slice(None)
    return bool((np.abs(series.paths.mean[last] - before) <= _SETTLED * spread[last]).all())


def _factor_likelihoods(
    factor: Factor, counts: Array, queries: Sequence[Query], atoms: LatentClasses
) -> Iterator[tuple[Query, Array, Array]]:
    """Yield each query of a factor, with slope and information in its codes' shares."""
    queries = [queries[number] for number in factor.queries]
    tables = [each.law @ atoms.probabilities[each.column] for each in queries]
    joint = atoms.weights[None]
    for table in tables:
        joint = (joint[:, None] * table[None]).reshape(-1, atoms.num_classes)
    cells, gain = joint.sum(axis=1), factor.ratio - 1
    sent = counts > 0
    likelihood = scipy.sparse.csr_array(factor.likelihood)[sent]
    people, total = counts[sent], 1 + gain * (likelihood @ cells)
    places = np.unravel_index(np.arange(len(cells)), factor.shape)
    for query, table, codes in zip(queries, tables, places, strict=True):
        own = table @ atoms.weights
        given = cells / np.maximum(own, 1e-300)[codes]
        turn = scipy.sparse.csr_array(
            (given, (np.arange(len(cells)), codes)), shape=(len(cells), len(own))
        )
        scores = gain * (likelihood @ turn).toarray() / total[:, None]
        yield query, people @ scores, (scores * people[:, None]).T @ scores


def _pieces(own: Array, places: Places) -> Pieces:
    """Return the values of a column as pieces, or bumps of a number with many."""
    if places.cells is None or len(places.cells.in_order) <= _MAX_ATOMIC:
        return Pieces(np.eye(len(own)), own)
    none = np.zeros(0)
    return Pieces.bumps(Curve(own, none.astype(np.int64), none), places.cells)


def _own_atoms(places: Places, atoms: Atoms, name: str) -> Ints:
    """Map each value of a model to its atom; a mass point to the atom around it."""
    count = atoms.size
    if len(places.codes) < count or not np.array_equal(places.codes[:count], atoms.codes):
        raise PrivotError(
            f"column {name!r} is reported in other alphabets in this wave: give waves of randomizers "
            "that differ in nothing but epsilon, or fit them apart"
        )
    more = len(places.codes) - count
    if not more or places.cells is None or atoms.cells is None:
        return np.arange(count)
    points = places.cells.low[count:, None]
    around = (atoms.cells.low <= points) & (points < atoms.cells.high)
    return np.concatenate([np.arange(count), around.argmax(axis=1)])

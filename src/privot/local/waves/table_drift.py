r"""Drift of tables: latent classes of all waves together, raked to each wave's marginals.

The marginals of the columns change over time, the odds ratios between columns do not. Each column has a
series of the shares of its pieces (`privot.local.waves.paths`). A report y of several columns has the
relative likelihood $L = 1 + g \sum_v A_{yv} p(v)$ with g = r − 1 (`privot.local.classes.counts`). The
slope of ln L in the share of code k of column c is $g b_k / L$ with

$$ b_k = \sum_{v : v_c = k} A_{yv}\, p(v | v_c = k) , $$

where the other columns have their distribution at this wave, given k. So slopes have mean 0 under the
wave's true distribution, whatever the dependence between columns.

Privacy: functions of reports, hence post-processing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy

from privot.core.errors import PrivotError
from privot.local.classes.counts import Factor, Query, count_releases
from privot.local.classes.curves import Curve, Pieces
from privot.local.classes.marginals import rake
from privot.local.classes.mixture import LatentClasses, LatentClassSampler, Places
from privot.local.releases import Releases
from privot.local.waves.paths import (
    Paths,
    ShareCoordinates,
    ShareLikelihood,
    ShareRatio,
    ShareSeries,
)
from privot.randomizer import Counts
from privot.schema.domains import Array
from privot.schema.sampling import values_of

_RAKING_TOLERANCE = 1e-7
_MAX_ROUNDS, _MAX_CHANGE = 8, 0.1  # rounds end when paths change by at most 0.1 standard errors
_MAX_ATOMIC = 12  # a number with at most so many intervals has no bumps: its values are the pieces


@dataclass(frozen=True, eq=False)
class TableDrift:
    """Drift of a table: latent classes of all waves together, and one series of shares per column."""

    sampler: LatentClassSampler  # sampler of all waves together
    series: tuple[ShareSeries, ...] = ()  # series of the columns; empty until waves are fitted
    kind: ClassVar[str] = LatentClassSampler.kind

    @classmethod
    def of(
        cls, sampler: LatentClassSampler, waves: Sequence[Counts], times: Array, seed: int
    ) -> Self:
        """Fit the series of all columns to waves; the seed is not used."""
        without_series = cls(sampler)

        def expand(shares: Iterable[Sequence[Array]]) -> list[tuple[ShareLikelihood, ...]]:
            """Return each column's likelihoods of all waves, given the columns' shares by wave."""
            by_wave = map(without_series.likelihoods, waves, shares)
            return [*zip(*by_wave, strict=True)]

        pooled = [each.shares for each in without_series.pieces]
        likelihoods = expand([pooled] * len(waves))
        coordinates = [*map(ShareCoordinates.of, pooled, likelihoods)]
        paths = [np.zeros((len(waves), each.basis.shape[1])) for each in coordinates]  # u
        for _ in range(_MAX_ROUNDS):
            columns = zip(coordinates, likelihoods, paths, strict=True)
            series = tuple(ShareSeries.of(c, times, own, path) for c, own, path in columns)
            before, paths = paths, [each.paths.mean for each in series]
            if all(map(_settled, before, series)):
                break
            # The next round expands likelihoods around the paths of this one.
            by_wave = zip(*paths, strict=True)
            likelihoods = expand([*map(ShareCoordinates.at, coordinates, u)] for u in by_wave)
        return cls(sampler, series)

    @property
    def times(self) -> Array:
        """Times of the waves (T,)."""
        return self.series[0].paths.times

    @cached_property
    def pieces(self) -> list[Pieces]:
        """Pieces of each column: its values, or bumps of a number with many intervals."""
        atoms = self.sampler.atoms
        marginals = [table @ atoms.weights for table in atoms.probabilities]
        return list(map(_pieces, marginals, self.sampler.places))

    def at(self, time: float) -> LatentClassSampler:
        """Return the sampler of a time."""
        return self._moved([each.coordinates.at(each.paths.at(time)[0]) for each in self.series])

    def with_wave(self, wave: Counts, time: float) -> Self:
        """Append a wave, expanded around the last wave's shares and then around the resulting shares."""
        series, around = self.series, [each.paths.mean[-1:] for each in self.series]
        for _ in range(_MAX_ROUNDS):
            pairs = zip(self.series, around, strict=True)
            likelihoods = self.likelihoods(wave, [each.coordinates.at(u[0]) for each, u in pairs])
            series = tuple(
                each.with_wave(time, likelihood, u[0])
                for each, likelihood, u in zip(self.series, likelihoods, around, strict=True)
            )
            before, around = around, [each.paths.mean[-1:] for each in series]
            if all(map(_settled, before, series)):
                break
        return type(self)(self.sampler, series)

    def ratio(self, column: str, value: Any) -> ShareRatio:
        """Return the share of people with a value, or the mean of a number: see `WaveModel.trend`."""
        number = list(self.sampler.schema.coded).index(column)
        places, declared = self.sampler.places[number], self.sampler.schema.coded[column]
        if value is None:
            cells = places.cells
            if cells is None or declared.in_rules != "number":
                raise PrivotError(
                    f"column {column!r} has no mean: give a value, whose share is estimated"
                )
            # An integer cell ends before `high`, unless it is a point.
            middles = (cells.low + cells.high - cells.integer * (cells.high > cells.low)) / 2
            present = ~np.isnan(middles)
            numerator, denominator = np.where(present, middles, 0.0), present.astype(np.float64)
        else:
            codes = {c for each in values_of(value) for c in declared.find_codes(column, each)}
            numerator = np.isin(places.codes, sorted(codes)).astype(np.float64)
            denominator = np.ones(len(numerator))
        series, law, waves = self.series[number], self.pieces[number].law, (len(self.times), 1)
        return ShareRatio(
            series, np.tile(numerator @ law, waves), np.tile(denominator @ law, waves)
        )

    def series_of(self, column: str, value: Any) -> ShareSeries:
        """Return the column's series, which does not depend on the value."""
        return self.series[list(self.sampler.schema.coded).index(column)]

    def _moved(self, shares: Sequence[Array]) -> LatentClassSampler:
        """Return the sampler whose columns have these shares (pieces,) of their pieces."""
        pairs = zip(self.pieces, shares, strict=True)
        marginals = [pieces.law @ column_shares for pieces, column_shares in pairs]
        atoms = rake(self.sampler.atoms, marginals, tolerance=_RAKING_TOLERANCE)
        return LatentClassSampler(atoms, self.sampler.places, self.sampler.schema)

    def likelihoods(self, wave: Counts, shares: Sequence[Array]) -> list[ShareLikelihood]:
        """Expand a wave's log-likelihood in every column's shares around given shares.

        Raises:
            PrivotError: for a wave that reports columns in other alphabets than the waves before.
        """
        atoms, releases = self._moved(shares).atoms, Releases((wave,))
        queries, groups = count_releases(releases)
        atom_of_place = [
            places.numbers(releases.atoms[name], name)
            for places, name in zip(self.sampler.places, self.sampler.schema.coded, strict=True)
        ]
        queries = [Query(each.column, each.law[:, atom_of_place[each.column]]) for each in queries]
        sizes = [len(each.shares) for each in self.pieces]
        likelihoods = [ShareLikelihood(np.zeros(size), np.zeros((size, size))) for size in sizes]
        for group in groups:
            for place, factor in enumerate(group.factors):
                rows = factor.likelihood.shape[0]
                counts = np.bincount(group.answers[:, place], group.counts, rows).astype(float)
                expansions = _expand_factor(factor, counts, queries, atoms)
                for query, slope, information in expansions:
                    law = query.law @ self.pieces[query.column].law
                    likelihoods[query.column].slope[:] += law.T @ slope
                    likelihoods[query.column].information[:] += law.T @ information @ law
        return likelihoods

    def fields(self) -> dict[str, Any]:
        """Return plain values, for storage."""
        return {}

    def arrays(self) -> dict[str, Array]:
        """Return arrays by name, for storage."""
        arrays: dict[str, Array] = {"times": self.times}
        for number, series in enumerate(self.series):
            arrays |= {
                f"shares_{number}": series.coordinates.shares,
                f"basis_{number}": series.coordinates.basis,
                f"slopes_{number}": series.paths.slopes,
                f"precisions_{number}": series.paths.precisions,
            }
        return arrays

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
    """Return True if the last t points of the paths hardly differ from those `before` (t, K)."""
    stddevs = np.sqrt(np.diagonal(series.paths.covariance, axis1=1, axis2=2)).T
    change = np.abs(series.paths.mean[-len(before) :] - before)
    return bool((change <= _MAX_CHANGE * stddevs[-len(before) :]).all())


def _expand_factor(
    factor: Factor, counts: Array, queries: Sequence[Query], atoms: LatentClasses
) -> Iterator[tuple[Query, Array, Array]]:
    """Yield each query of a factor, with the slope and the information in the shares of its codes."""
    own_queries = [queries[number] for number in factor.queries]
    tables = [each.law @ atoms.probabilities[each.column] for each in own_queries]
    joint = atoms.weights[None]
    for table in tables:
        joint = (joint[:, None] * table[None]).reshape(-1, atoms.num_classes)
    # As in the formulas above, p is the distribution of cells, and A and L are those of answers sent.
    p, g, sent = joint.sum(axis=1), factor.ratio - 1, counts > 0
    a, people = scipy.sparse.csr_array(factor.likelihood)[sent], counts[sent]
    likelihood = 1 + g * (a @ p)
    cells = np.arange(len(p))
    codes_by_query = np.unravel_index(cells, factor.shape)
    for query, table, codes in zip(own_queries, tables, codes_by_query, strict=True):
        marginal = table @ atoms.weights
        conditional = p / np.maximum(marginal, 1e-300)[codes]
        shape = (len(p), len(marginal))
        p_given_code = scipy.sparse.csr_array((conditional, (cells, codes)), shape=shape)
        slopes = g * (a @ p_given_code).toarray() / likelihood[:, None]
        yield query, people @ slopes, (slopes * people[:, None]).T @ slopes


def _pieces(marginal: Array, places: Places) -> Pieces:
    """Return the values of a column as pieces, or bumps of a number with many intervals."""
    if places.cells is None or len(places.cells.in_order) <= _MAX_ATOMIC:
        return Pieces(np.eye(len(marginal)), marginal)
    no_peaks = np.zeros(0, np.int64)
    return Pieces.bumps(Curve(marginal, no_peaks, excess=np.zeros(0)), places.cells)

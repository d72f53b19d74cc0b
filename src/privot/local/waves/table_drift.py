r"""Drift of tables: latent classes of all waves together, raked to each wave's marginals.

The model assumes that the columns' marginals change over time and that the odds ratios between columns
do not. Each column has a series of the shares of its pieces (`privot.local.waves.paths`). A report y of
several columns has the relative likelihood $L = 1 + g \sum_v A_{yv} p(v)$ with g = r − 1
(`privot.local.classes.counts`). The slope of ln L in the share of code k of column c is $g b_k / L$ with

$$ b_k = \sum_{v : v_c = k} A_{yv}\, p(v | v_c = k) , $$

where the other columns have their distribution at this wave, given k. So at the wave's true distribution
the mean slope is the same for all codes, however columns depend on each other.

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
from privot.local.classes.marginals import Curve, Pieces, rake
from privot.local.classes.mixture import LatentClasses, LatentClassSampler
from privot.local.releases import Places, Releases
from privot.local.waves.paths import (
    Paths,
    ShareCoordinates,
    ShareLikelihood,
    ShareRatio,
    ShareSeries,
)
from privot.models import Component
from privot.randomizer import Counts
from privot.schema.domains import Array
from privot.schema.sampling import values_of

_RAKING_TOLERANCE = 1e-7
_MAX_ROUNDS, _MAX_CHANGE = 8, 0.1  # rounds end when paths change by at most 0.1 standard errors
_MAX_ATOMIC = 12  # most intervals of a number whose pieces are its values instead of bumps


@dataclass(frozen=True, eq=False)
class TableDrift(Component):
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
            """Expand the likelihoods around the columns' shares by wave; return them by column."""
            return [*zip(*map(without_series.likelihoods, waves, shares), strict=True)]

        pooled = [pieces.shares for pieces in without_series.pieces]
        likelihoods = expand([pooled] * len(waves))
        coordinates = [*map(ShareCoordinates.of, pooled, likelihoods)]
        paths = [np.zeros((len(waves), column.basis.shape[1])) for column in coordinates]  # u
        for _ in range(_MAX_ROUNDS):
            all_times = [times] * len(coordinates)
            series = tuple(map(ShareSeries.of, coordinates, all_times, likelihoods, paths))
            before, paths = paths, [column.paths.mean for column in series]
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
        pairs = ((column.coordinates, column.paths.at(time)[0]) for column in self.series)
        return self._moved([coordinates.at(mean) for coordinates, mean in pairs])

    def with_wave(self, wave: Counts, time: float) -> Self:
        """Append a wave, expanded around the last wave's shares, then around the updated shares."""
        series, around = self.series, [column.paths.mean[-1:] for column in self.series]
        for _ in range(_MAX_ROUNDS):
            pairs = zip(self.series, around, strict=True)
            shares = [column.coordinates.at(u[0]) for column, u in pairs]
            rows = zip(self.series, self.likelihoods(wave, shares), around, strict=True)
            series = tuple(column.with_wave(time, expansion, u[0]) for column, expansion, u in rows)
            before, around = around, [column.paths.mean[-1:] for column in series]
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
            codes = {code for one in values_of(value) for code in declared.find_codes(column, one)}
            numerator = np.isin(places.codes, sorted(codes)).astype(np.float64)
            denominator = np.ones(len(numerator))
        law, repeats = self.pieces[number].law, (len(self.times), 1)
        terms = (np.tile(term @ law, repeats) for term in (numerator, denominator))
        return ShareRatio(self.series[number], *terms)

    def series_of(self, column: str, value: Any) -> ShareSeries:
        """Return the column's series, which does not depend on the value."""
        return self.series[list(self.sampler.schema.coded).index(column)]

    def _moved(self, shares: Sequence[Array]) -> LatentClassSampler:
        """Return the sampler, raked to columns with these shares (pieces,)."""
        pairs = zip(self.pieces, shares, strict=True)
        marginals = [pieces.law @ column_shares for pieces, column_shares in pairs]
        atoms = rake(self.sampler.atoms, marginals, tolerance=_RAKING_TOLERANCE)
        return LatentClassSampler(atoms, self.sampler.places, self.sampler.schema)

    def likelihoods(self, wave: Counts, shares: Sequence[Array]) -> list[ShareLikelihood]:
        """Expand a wave's log-likelihood in the shares of every column around given shares.

        Raises:
            PrivotError: for a wave that reports columns in other alphabets than the earlier waves.
        """
        atoms, releases = self._moved(shares).atoms, Releases((wave,))
        queries, groups = count_releases(releases)
        atom_of_place = [
            places.numbers(releases.atoms[name], name)
            for places, name in zip(self.sampler.places, self.sampler.schema.coded, strict=True)
        ]
        queries = [Query(column, law[:, atom_of_place[column]]) for column, law in queries]
        sizes = [len(pieces.shares) for pieces in self.pieces]
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

    def arrays(self) -> dict[str, Array]:
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
        series = (
            ShareSeries(
                ShareCoordinates(arrays[f"shares_{i}"], arrays[f"basis_{i}"]),
                Paths(arrays["times"], arrays[f"slopes_{i}"], arrays[f"precisions_{i}"]),
            )
            for i in range(len(sampler.places))
        )
        return cls(sampler, tuple(series))


def _settled(before: Array, series: ShareSeries) -> bool:
    """Return True if the last t points of the paths hardly differ from `before` (t, K)."""
    stddevs = np.sqrt(np.diagonal(series.paths.covariance, axis1=1, axis2=2)).T
    change = np.abs(series.paths.mean[-len(before) :] - before)
    return bool((change <= _MAX_CHANGE * stddevs[-len(before) :]).all())


def _expand_factor(
    factor: Factor, counts: Array, queries: Sequence[Query], atoms: LatentClasses
) -> Iterator[tuple[Query, Array, Array]]:
    """Yield each query of a factor, with the slope and the information in the shares of its codes."""
    factor_queries = [queries[number] for number in factor.queries]
    tables = [law @ atoms.probabilities[column] for column, law in factor_queries]
    joint = atoms.weights[None]
    for table in tables:
        joint = (joint[:, None] * table[None]).reshape(-1, atoms.num_classes)
    # In the symbols of the module: p is the distribution of cells; A and L are for the answers sent.
    p, g, sent = joint.sum(axis=1), factor.ratio - 1, counts > 0
    a, people = scipy.sparse.csr_array(factor.likelihood)[sent], counts[sent]
    likelihood = 1 + g * (a @ p)
    cells = np.arange(len(p))
    codes_by_query = np.unravel_index(cells, factor.shape)
    for query, table, codes in zip(factor_queries, tables, codes_by_query, strict=True):
        marginal = table @ atoms.weights
        conditional = p / np.maximum(marginal, 1e-300)[codes]
        shape = (len(p), len(marginal))
        p_given_code = scipy.sparse.csr_array((conditional, (cells, codes)), shape=shape)
        slopes = g * (a @ p_given_code).toarray() / likelihood[:, None]
        yield query, people @ slopes, (slopes * people[:, None]).T @ slopes


def _pieces(marginal: Array, places: Places) -> Pieces:
    """Return a column's pieces: its values, or bumps of a number with many intervals."""
    if places.cells is None or len(places.cells.in_order) <= _MAX_ATOMIC:
        return Pieces(np.eye(len(marginal)), marginal)
    no_peaks = np.zeros(0, np.int64)
    return Pieces.bumps(Curve(marginal, no_peaks, excess=np.zeros(0)), places.cells)

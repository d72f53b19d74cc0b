"""Cells of places: every point of a domain has one, and decoding gives it back."""

from __future__ import annotations

import numpy as np
import pytest

from privot import PrivotError, Schema
from privot.schema import Box, L1Ball, L2Ball
from privot.schema.columns.vector import Cells

DOMAINS = [
    Box((-8.7, 49.8), (1.8, 60.9)),
    Box((0.0, 0.0, 0.0), (1.0, 2.0, 3.0)),
    L2Ball(2, 5.0),
    L2Ball(3, 1.0, non_negative=True),
    L1Ball(2, 2.0),
    L1Ball(3, 1.0, non_negative=True),
]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def points_of(domain, count, rng):
    """Points of the unit domain, half of them on its edge."""
    raw = rng.uniform(-1, 1, (count, domain.dimension)) * rng.choice([1.0, 3.0], (count, 1))
    return domain.unit.project(raw)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("bins", [None, 2, 5])
def test_every_point_has_a_cell_that_holds_it(domain, bins, rng):
    cells, points = Cells(domain, bins), points_of(domain, 20_000, rng)
    codes = cells.encode(points)
    assert codes.min() >= 0
    assert codes.max() < cells.size
    again = cells.decode(codes, rng)
    # Drawing within the corner of a cell that the domain leaves may fail: the edge nearby is taken.
    apart = np.abs(again - points).max(axis=1) / (2 / cells.side)
    assert apart.max() <= 2
    assert (apart > 1 + 1e-4).mean() < 1e-3
    assert np.abs(domain.unit.project(again) - again).max() <= 1e-9


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_every_code_is_the_code_of_some_point(domain, rng):
    cells = Cells(domain, 4)
    # Corners of balls are small: many points, and those that cells decode to.
    seen = cells.encode(points_of(domain, 200_000, rng))
    drawn = cells.encode(cells.decode(np.repeat(np.arange(cells.size), 50), rng))
    assert set(np.union1d(seen, drawn)) == set(range(cells.size))


def test_decoded_points_are_uniform_where_cells_are_equally_full(rng):
    cells = Cells(Box((0.0, 0.0), (1.0, 1.0)), 2)
    points = cells.decode(np.repeat(np.arange(4), 10_000), rng)
    counts = np.histogram2d(*points.T, bins=4, range=[[-1, 1], [-1, 1]])[0]
    assert counts.sum() == 40_000
    assert abs(counts / 2500 - 1).max() < 0.1


def test_a_missing_vector_is_the_last_code(rng):
    cells = Cells(Box((0.0, 0.0), (1.0, 1.0)), 2, nullable=True)
    codes = cells.encode(np.array([[np.nan, np.nan], [0.5, 0.5]]))
    assert codes.tolist() == [4, 3]
    assert np.isnan(cells.decode(codes, rng)).all(axis=1).tolist() == [True, False]
    assert cells.labels[-1] == "(missing)"
    with pytest.raises(PrivotError, match="missing in a column that is not nullable"):
        Cells(Box((0.0, 0.0), (1.0, 1.0)), 2).encode(np.array([[np.nan, 0.0]]))


def test_bins_that_cannot_be_are_refused():
    for bins in (1, 300):
        with pytest.raises(PrivotError, match=f"bins {bins} cannot be: .*along each of 2 coord"):
            _ = Cells(Box((0.0, 0.0), (1.0, 1.0)), bins)
    line = "kind = 'vector'\ncolumns = ['a', 'b']\nsupport = [[0, 0], [1, 1]]\nbins = 4"
    with pytest.raises(PrivotError, match="bins 4 make no cells of 2 coordinates, or along"):
        Schema.from_toml(f"[columns.line]\n{line}")


def test_a_vector_of_many_coordinates_has_no_codes():
    names = ["a", "b", "c", "d"]
    fields = {"kind": "vector", "columns": names, "bounds": [[0, 1]] * 4}
    schema = Schema.from_dict({"columns": {"v": fields}})
    assert list(schema.coded) == []
    assert list(schema.vectors) == ["v"]

"""Distances stand beside floors that are of the right size, and comparisons see what differs."""

import numpy as np
import pyarrow as pa
import pytest

from privot.errors import PrivotError
from privot.evaluation import compare, sample_distance, total_variation
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 10], [0, 100]]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
""")


def table(num, seed, shift=0.0, red=0.5):
    rng = np.random.default_rng(seed)
    color = np.where(rng.random(num) < red, "red", "blue")
    return pa.table(
        {"x": rng.uniform(0, 5, num) + shift, "y": rng.uniform(0, 100, num), "color": color}
    )


def test_a_shift_is_measured_in_unit_coordinates():
    """Moved by 3 of a side of 10: by 0.6 of a side of 2."""
    comparison = compare(SCHEMA, table(3000, 0, shift=3.0), table(3000, 1), num_points=600)
    (place,) = comparison.vectors
    assert place.distance == pytest.approx(0.6, abs=0.06)
    assert place.floor < 0.12
    (color,) = comparison.table.columns
    assert color.total_variation.synthetic < 0.03


def test_shares_differ_by_their_total_variation():
    comparison = compare(SCHEMA, table(9000, 0, red=0.8), table(9000, 1), num_points=50)
    (color,) = comparison.table.columns
    assert color.total_variation.synthetic == pytest.approx(0.3, abs=0.02)
    assert color.total_variation.floor < 0.03
    assert total_variation(np.array([0.2, 0.8]), np.array([0.5, 0.5])) == pytest.approx(0.3)


def test_the_floor_uses_disjoint_halves():
    """With itself, a sample of distinct points is not at distance 0: points are never matched twice."""
    x = np.random.default_rng(0).random((400, 2))
    assert sample_distance(x, x, 400) > 0.03
    assert sample_distance(x, x.copy(), 400) == pytest.approx(0, abs=1e-9)


def test_a_schema_of_vectors_alone_has_no_table():
    place = Schema.from_dict({"columns": {"place": SCHEMA.to_dict()["columns"]["place"]}})
    ours, truth = (table(50, seed).select(["x", "y"]) for seed in (0, 1))
    assert compare(place, ours, truth).table is None


def test_too_few_records_are_refused():
    with pytest.raises(PrivotError, match="too few to compare"):
        compare(SCHEMA, table(3, 0), table(100, 0))
    with pytest.raises(PrivotError, match="give at least one each"):
        sample_distance(np.zeros((0, 2)), np.zeros((5, 2)))

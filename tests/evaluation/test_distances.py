"""Distances stand beside floors that are of the right size, and comparisons see what differs.

Measures of two columns, against closed forms, NumPy and SciPy.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats.contingency import association

from privot.core.errors import PrivotError
from privot.evaluation import compare, sample_distance, total_variation
from privot.evaluation.distances import cramers_v, independent
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
    color = next(c for c in comparison.table.columns if c.column == "color")
    assert color.total_variation.synthetic < 0.03


def test_shares_differ_by_their_total_variation():
    comparison = compare(SCHEMA, table(9000, 0, red=0.8), table(9000, 1), num_points=50)
    color = next(c for c in comparison.table.columns if c.column == "color")
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


seeds = st.integers(0, 2**32 - 1)


def counts(seed, shape=(4, 3)):
    return np.random.default_rng(seed).integers(1, 50, shape)


@given(seeds, st.integers(2, 6), st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_cramers_v_is_scipys(seed, rows, columns):
    table = counts(seed, (rows, columns))
    ours = cramers_v(table / table.sum())
    assert ours == pytest.approx(association(table, method="cramer"), abs=1e-7)


def test_cramers_v_works_on_many_tables_at_once():
    tables = np.stack([counts(i) / counts(i).sum() for i in range(5)])
    assert cramers_v(tables) == pytest.approx([float(cramers_v(table)) for table in tables])


def test_cramers_v_at_its_ends():
    determined = np.diag([0.2, 0.3, 0.5])[[2, 0, 1]]
    assert cramers_v(determined) == pytest.approx(1)
    assert cramers_v(np.outer([0.2, 0.8], [0.5, 0.25, 0.25])) == pytest.approx(0, abs=1e-7)
    assert cramers_v(np.array([[0.3, 0.7]])) == 0


def test_independence_keeps_the_margins():
    joint = counts(0) / counts(0).sum()
    product = independent(joint)
    assert product.sum(0) == pytest.approx(joint.sum(0))
    assert product.sum(1) == pytest.approx(joint.sum(1))
    assert cramers_v(product) == pytest.approx(0, abs=1e-7)
    assert np.abs(np.eye(2) / 2 - independent(np.eye(2) / 2)).sum() / 2 == pytest.approx(0.5)

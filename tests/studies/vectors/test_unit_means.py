"""Means of unit vectors: both methods near what theory says, and hardly any bias."""

import pytest

from studies.vectors.unit_means import compare_means, measure_gains


def test_candidates_err_as_privunit_does():
    ours, theirs = compare_means(dimension=300, epsilon=4.0, people=4000, seed=0)
    assert (ours["method"], theirs["method"]) == ("candidates", "PrivUnit")
    for row in (ours, theirs):
        assert row["error"] == pytest.approx(row["expected"], rel=0.2)
    assert ours["expected"] / theirs["expected"] < 1.05


def test_little_bias_is_left():
    rows = list(measure_gains(dimension=300, epsilon=4.0, draws=2000, seed=0))
    assert [row["numbers"] for row in rows] == ["one", "two", "sixteen", "all"]
    for row in rows:
        assert abs(row["ratio"] - 1) < 0.01 + 5 * row["error"]

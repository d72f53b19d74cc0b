"""Rows of maps by place of trust."""

import pytest

from studies.promise.places import measure


@pytest.mark.parametrize("where", ["aggregated", "central"])
def test_more_epsilon_is_nearer_to_the_people(where):
    rows = [*measure("towns", 0, [0.3, 30.0], [where], None, 3000)]
    assert [row["where"] for row in rows] == ["floor", where, where]
    few, many = rows[1:]
    assert many["w2"] < few["w2"]
    assert many["w2"] < 1.25 * rows[0]["w2"]

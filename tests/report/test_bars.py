"""Bars stand in an order that people read, with what reports say of single values."""

import pytest

from privot.evaluation.estimates import Interval, ValueCheck
from privot.report.charts import bars_of
from towns_and_hours import SCHEMA, people


def test_bars_stand_in_the_order_people_read():
    ours, truth = people(300, 0), people(400, 1)
    town, hours, year, born = (bars_of(SCHEMA, name, ours, truth) for name in SCHEMA.columns)
    shares = [bar.real for bar in town[:15]]
    assert shares == sorted(shares, reverse=True)
    assert [bar.label for bar in town[15:]] == ["5 others", "(missing)"]
    assert [bar.label for bar in hours] == ["1 to 19", "20 to 39", "40", "41 to 99"]
    assert len(year) == 16
    assert year[0].label == "0 … 2"
    assert born[0].label.startswith("1950-01-01 to 195")
    for column in (town, hours, year, born):
        assert sum(bar.real for bar in column) == pytest.approx(1)
        assert sum(bar.synthetic for bar in column) == pytest.approx(1)


def test_reports_stand_beside_single_values():
    checks = [ValueCheck(0.05, Interval(0.05, 0.04, 0.3)) for _ in range(21)]
    bars = bars_of(SCHEMA, "town", people(300, 0), checked=checks)
    assert [bar.checked is None for bar in bars] == [False] * 15 + [True, False]
    assert all(bar.real is None for bar in bars)
    assert bars[3].longest == 0.3

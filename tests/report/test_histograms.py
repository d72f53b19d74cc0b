"""Outlines of numbers: integers in bins of their own, tails cut, ticks in place, dates as dates."""

import re

import numpy as np
import pytest

from privot.report.charts import HEIGHT, WIDTH, draw_histogram, format_number
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.x]
kind = "numeric"
bounds = [0, 1000000]
[columns.day]
kind = "datetime"
bounds = [2000-01-01, 2009-12-31]
[columns.cost]
kind = "numeric"
decimals = 2
bounds = [1, 1000000]
scale = "log"
""")


def words(drawn):
    return [mark.words for mark in drawn.marks]


def test_heights_are_shares():
    values = np.repeat([1.0, 2.0, 3.0], [10, 40, 20])
    drawn = draw_histogram(SCHEMA, "x", values, None, None)
    assert drawn.real is None
    tops = [HEIGHT - float(y) for y in re.findall(r"V([\d.]+)H", drawn.synthetic)]
    assert np.array(tops) / tops[1] == pytest.approx([0.25, 1, 0.5], abs=0.01)
    assert words(drawn) == ["1", "2", "3"]
    assert [mark.place for mark in drawn.marks] == pytest.approx([16.7, 50, 83.3], abs=0.1)
    assert drawn.beyond == ""
    assert drawn.ticks[2].place == pytest.approx(WIDTH / 2)


def test_both_tables_stand_on_one_scale():
    rng = np.random.default_rng(0)
    ours, truth = rng.lognormal(8, 1, 4000), rng.lognormal(8, 1, 3000)
    drawn = draw_histogram(SCHEMA, "x", ours, truth, None)
    assert 0 < float(drawn.beyond.split(" %")[0]) < 1.5
    assert [tick.place for tick in drawn.ticks] == pytest.approx(
        [tick.place for tick in drawn.real_ticks], abs=WIDTH / 12
    )
    assert all("," in mark for mark in words(drawn)[1:])


def test_what_has_no_value_has_no_histogram():
    assert draw_histogram(SCHEMA, "x", np.zeros(0), np.ones(3), None) is None
    constant = draw_histogram(SCHEMA, "x", np.full(9, 5.0), np.full(9, 5.0), None)
    assert words(constant) == ["5"]


def test_numbers_on_a_log_scale_stand_on_one():
    costs = np.random.default_rng(0).lognormal(7, 1.5, 20_000).round(2)
    drawn = draw_histogram(SCHEMA, "cost", costs, None, None)
    assert words(drawn) == ["100", "1,000", "10,000"]
    places = [mark.place for mark in drawn.marks]
    assert np.diff(places) == pytest.approx(places[1] - places[0], abs=0.2)
    tops = [HEIGHT - float(y) for y in re.findall(r"V([\d.]+)H", drawn.synthetic)]
    assert 0.4 < np.argmax(tops) / len(tops) < 0.6  # a bell


def test_a_tail_does_not_hide_the_shape():
    rng = np.random.default_rng(0)
    values = np.where(
        rng.random(20_000) < 0.02, rng.uniform(0, 1e6, 20_000), rng.uniform(0, 9e3, 20_000)
    )
    drawn = draw_histogram(SCHEMA, "x", values, None, None)
    assert words(drawn)[-1] == "7,500"
    assert "lie beyond, from 0" in drawn.beyond


def test_marks_of_dates_are_months():
    days = 10_957 + 366.0 + np.arange(300)
    drawn = draw_histogram(SCHEMA, "day", days, None, None)
    assert words(drawn) == ["Apr 2001", "Jul 2001", "Oct 2001"]
    assert words(draw_histogram(SCHEMA, "day", days[:9], None, None))[0] == "2001-01-01"


@pytest.mark.parametrize(
    ("name", "number", "said"),
    [("x", 12_345.6, "12,346"), ("x", 0.000012, "1.2e-05"), ("x", 0.5, "0.5"), ("x", 0.0, "0"),
     ("x", -3.14159, "-3.14"), ("day", 10_957.4, "2000-01-01")],
)  # fmt: skip
def test_numbers_in_words(name, number, said):
    assert format_number(SCHEMA, name, number) == said

"""Outlines of numbers: integers in bins of their own, tails cut, ticks in place, dates as dates."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch

from privot.report.charts import WIDTH, draw_histogram, format_number
from privot.report.panels import LEARNED, MUTED, PRIVATE, inline_svg
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


def marks(drawn):
    """Labels of the axis, with their places in points, and last what lies beyond."""
    *labels, beyond = drawn.texts
    assert {label.get_color() for label in labels} == {MUTED}
    return {label.get_text(): label.get_position()[0] for label in labels}, beyond.get_text()


def words(drawn):
    return [*marks(drawn)[0]]


def tops(drawn):
    """Heights of bins of every outline."""
    return [-p.get_data().values for p in drawn.artists if isinstance(p, StepPatch)]


def ticks(drawn, color):
    lines = [
        line
        for line in drawn.artists
        if isinstance(line, Line2D) and to_hex(line.get_color()) == color
    ]
    return [line.get_xdata()[0] for line in lines]


def test_heights_are_shares():
    values = np.repeat([1.0, 2.0, 3.0], [10, 40, 20])
    drawn = draw_histogram(SCHEMA, "x", values, None, None)
    (heights,) = tops(drawn)
    assert heights / heights[1] == pytest.approx([0.25, 1, 0.5], abs=0.01)
    assert words(drawn) == ["1", "2", "3"]
    places, beyond = marks(drawn)
    assert [*places.values()] == pytest.approx([WIDTH / 6, WIDTH / 2, 5 * WIDTH / 6], abs=0.1)
    assert beyond == ""
    assert ticks(drawn, LEARNED)[2] == pytest.approx(WIDTH / 2)
    assert ticks(drawn, PRIVATE) == []


def test_both_tables_stand_on_one_scale():
    rng = np.random.default_rng(0)
    ours, truth = rng.lognormal(8, 1, 4000), rng.lognormal(8, 1, 3000)
    drawn = draw_histogram(SCHEMA, "x", ours, truth, None)
    assert len(tops(drawn)) == 2
    assert 0 < float(marks(drawn)[1].split(" %")[0]) < 1.5
    assert ticks(drawn, LEARNED) == pytest.approx(ticks(drawn, PRIVATE), abs=WIDTH / 12)
    assert all("," in mark for mark in words(drawn)[1:])


def test_what_has_no_value_has_no_histogram():
    assert draw_histogram(SCHEMA, "x", np.zeros(0), np.ones(3), None) is None
    constant = draw_histogram(SCHEMA, "x", np.full(9, 5.0), np.full(9, 5.0), None)
    assert words(constant) == ["5"]
    assert "0.3" in words(draw_histogram(SCHEMA, "cost", np.full(9, 0.3), None, None))


def test_numbers_on_a_log_scale_stand_on_one():
    costs = np.random.default_rng(0).lognormal(7, 1.5, 20_000).round(2)
    drawn = draw_histogram(SCHEMA, "cost", costs, None, None)
    assert words(drawn) == ["100", "1,000", "10,000"]
    places = [*marks(drawn)[0].values()]
    assert np.diff(places) == pytest.approx(places[1] - places[0], abs=0.6)
    (heights,) = tops(drawn)
    assert 0.4 < np.argmax(heights) / len(heights) < 0.6  # a bell


def test_a_tail_does_not_hide_the_shape():
    rng = np.random.default_rng(0)
    values = np.where(
        rng.random(20_000) < 0.02, rng.uniform(0, 1e6, 20_000), rng.uniform(0, 9e3, 20_000)
    )
    drawn = draw_histogram(SCHEMA, "x", values, None, None)
    assert words(drawn)[-1] == "7,500"
    assert "lie beyond, from 0" in marks(drawn)[1]


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


def test_the_same_values_make_the_same_picture_in_colors_of_the_page():
    values = np.random.default_rng(0).normal(50, 9, 900)
    one, two = (
        inline_svg(draw_histogram(SCHEMA, "x", values, values + 1, None), "a <b> & c") for _ in "ab"
    )
    assert one == two
    assert one.startswith('<svg class="chart" viewBox="0 0 320 ')
    assert 'role="img" aria-label="a &lt;b&gt; &amp; c"' in one
    assert one.rstrip().endswith("</svg>")
    for name in ("real", "learned", "muted", "line"):
        assert f"var(--{name})" in one
    assert "font-family" not in one
    assert " id=" not in one
    assert len(one) < 10_000

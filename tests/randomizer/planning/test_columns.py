"""Ways compared: what another needs is where its error is the goal."""

import math

import pytest

from privot.core.errors import PrivotError
from privot.randomizer.column_plans import Expected, compare_ways, forecast_way


def falls(scale):
    """An error of scale / (ε √n)."""
    return lambda epsilon, people: Expected(scale / (epsilon * math.sqrt(people)))


def test_what_another_way_needs_is_known_where_errors_are():
    ways = {"good": falls(1.0), "bad": falls(3.0)}
    best, other = compare_ways(ways, "good", 2.0, 400)
    forecasts = forecast_way(ways["good"], 2.0, 400)
    assert (best.report, best.same_epsilon, best.same_people) == ("good", 2.0, 400)
    assert other.error == pytest.approx(3 * best.error)
    assert other.same_epsilon == pytest.approx(6.0, rel=1e-3)
    assert other.same_people == pytest.approx(3600, rel=1e-2)
    assert other.same_people >= 3600
    assert len(forecasts) == 9
    assert {(f.people, f.epsilon): f.error for f in forecasts}[4000, 4.0] == pytest.approx(
        best.error / math.sqrt(40)
    )


def test_what_nothing_reaches_is_none_and_what_is_refused_is_left_out():
    def refused(epsilon, people):
        raise PrivotError("not at this ε")

    def small_only(epsilon, people):
        return refused(epsilon, people) if epsilon > 3 else falls(1.0)(epsilon, people)

    ways = {"good": falls(1.0), "flat": lambda e, n: Expected(1.0), "none": refused}
    options = compare_ways(ways, "good", 2.0, 400)
    assert [(o.report, o.same_epsilon, o.same_people) for o in options] == [
        ("good", 2.0, 400),
        ("flat", None, None),
    ]
    forecasts = forecast_way(small_only, 2.0, 400)
    assert {f.epsilon for f in forecasts} == {1.0, 2.0}


def test_few_people_have_no_tenth():
    forecasts = forecast_way(falls(1.0), 2.0, 5)
    assert {f.people for f in forecasts} == {5, 50}

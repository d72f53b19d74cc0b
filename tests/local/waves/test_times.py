"""Times are numbers or dates, in order, one for each wave."""

from datetime import date

import pytest

from privot.core.errors import PrivotError
from privot.local.waves.wave_model import format_time, read_time, read_times


def test_dates_are_days_and_come_back():
    first, dated = read_time(date(2026, 1, 31))
    assert dated
    assert read_time("2026-02-07")[0] == first + 7
    assert format_time(first, dated) == "2026-01-31"


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([1, 2], "times has 2 for 3 waves"),
        ([1, 3, 2], "time 2 is not after"),
        ([1, 2, "2026-01-01"], "numbers and dates"),
        ([1, 2, "soon"], "'soon' is no time"),
        ([1, 2, float("inf")], "inf is no time"),
        ([1, 2, None], "None is no time"),
    ],
)
def test_what_is_no_time_is_refused(times, words):
    with pytest.raises(PrivotError, match=words):
        read_times(times, 3)

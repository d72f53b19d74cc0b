"""Panels: one report in any w consecutive waves, whoever it is."""

from collections import Counter
from dataclasses import replace

import pytest

from privot import PrivotError
from privot.waves.panel import Panel

WEEK = 604_800
PANEL = Panel("commute", window=6, start=1_767_571_200, length=WEEK, seed="2026", waves=52)
PEOPLE = [f"person {number}" for number in range(6000)]


def test_any_window_holds_one_wave_of_a_person():
    for person in PEOPLE[:50]:
        due = [PANEL.is_due(person, wave) for wave in range(52)]
        assert {sum(due[first : first + 6]) for first in range(47)} == {1}
        assert [wave for wave in range(52) if due[wave]] == PANEL.waves_of(person)
        assert len(PANEL.waves_of(person)) <= PANEL.most_reports() == 9


def test_slots_are_even_and_another_seed_has_others():
    counts = Counter(map(PANEL.slot, PEOPLE))
    assert sorted(counts) == [*range(6)]
    assert all(abs(count - 1000) < 150 for count in counts.values())  # 5 standard deviations
    other = Panel("commute", 6, 0, WEEK, "2027")
    same = sum(PANEL.slot(person) == other.slot(person) for person in PEOPLE)
    assert abs(same - 1000) < 150


def test_slots_are_those_on_record():
    """JavaScript computes the same: a slot that moved would be a second report."""
    assert [PANEL.slot(person) for person in ("", "a", "ü", "person 7")] == [0, 3, 2, 2]


def test_waves_are_those_of_the_clock():
    start = PANEL.start
    assert [PANEL.wave_at(start + s) for s in (0, WEEK - 1, WEEK, 52 * WEEK - 1)] == [0, 0, 1, 51]
    with pytest.raises(PrivotError, match="has not begun"):
        PANEL.wave_at(start - 0.5)
    with pytest.raises(PrivotError, match="has ended"):
        PANEL.wave_at(start + 52 * WEEK)


def test_the_next_wave_is_the_first_that_is_due():
    for person in PEOPLE[:20]:
        due = PANEL.waves_of(person)
        assert PANEL.next_wave(person, 0) == due[0]
        assert PANEL.next_wave(person, due[0] + 1) == due[1]
        assert PANEL.next_wave(person, due[-1] + 1) is None
    endless = Panel("commute", 6, 0, WEEK, "2026")
    assert endless.next_wave("a", 10**9) < 10**9 + 6
    assert endless.most_reports() is None
    with pytest.raises(PrivotError, match="no last wave"):
        endless.waves_of("a")


def test_json_gives_the_panel_back(tmp_path):
    PANEL.save(tmp_path / "panel.json")
    assert Panel.load(tmp_path / "panel.json") == PANEL
    assert Panel.from_json(PANEL.to_json()) == PANEL


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "3", '{"format": 2}', PANEL.to_json().replace("seed", "x")]
)
def test_what_is_no_panel_is_refused(text):
    with pytest.raises(PrivotError, match="no panel"):
        Panel.from_json(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [("window", 0), ("window", 2.0), ("waves", 0), ("length", 0), ("start", -1), ("seed", ""),
     ("name", "a\nb"), ("name", 3), ("window", True)],
)  # fmt: skip
def test_impossible_panels_are_refused(field, value):
    with pytest.raises(PrivotError, match=field):
        replace(PANEL, **{field: value})

"""The map of pairs: errors below the diagonal, what there is above it, and nothing that saturates."""

import pytest

from privot.report.charts import MAX_PAIRED, heat_map, worst

OWN = {"a": 0.01, "b": 0.02, "c": 0.03}
BELOW = {("a", "b"): 0.1, ("a", "c"): 0.2, ("b", "c"): 0.4}
ABOVE = {pair: 2 * error for pair, error in BELOW.items()}
WORDS = ("own", "error", "there")


def test_numbers_stand_where_their_columns_cross():
    heat = heat_map("abc", OWN, BELOW, ABOVE, WORDS)
    size = heat.size
    place = {(cell.y / size, cell.x / size): cell for cell in heat.cells}
    assert {at: cell.text for at, cell in place.items()} == {
        (0, 0): ".01", (1, 1): ".02", (2, 2): ".03",
        (1, 0): ".10", (2, 0): ".20", (2, 1): ".40",
        (0, 1): ".20", (0, 2): ".40", (1, 2): ".80",
    }  # fmt: skip
    assert place[2, 1].words == "b × c: error 0.400"
    assert place[1, 2].kind == "there"
    assert heat.side == 3 * size


def test_only_the_largest_has_the_full_color():
    heat = heat_map("abc", OWN, BELOW, ABOVE, WORDS)
    strengths = sorted(cell.strength for cell in heat.cells)
    assert strengths[-1] == 1 > strengths[-2]
    assert strengths[0] > 0.1  # a hundredth of it is seen
    assert [mark for _, mark in heat.marks] == ["0", "0.05", "0.2", "0.45", "0.8"]
    for share, mark in heat.marks[1:]:
        assert 0.8 * share**2 == pytest.approx(float(mark))


def test_of_many_columns_the_worst_are_shown():
    names = [f"a column with a long name, number {i}" for i in range(40)]
    pairs = {(names[i], names[j]): 0.1 + 0.001 * i for j in range(40) for i in range(j)}
    heat = heat_map(names, dict.fromkeys(names, 0.0), pairs, pairs, WORDS)
    assert len(heat.names) == MAX_PAIRED
    assert len(heat.cells) == MAX_PAIRED**2
    assert max(map(len, heat.names)) == 16
    assert {cell.text for cell in heat.cells} == {""}
    assert worst([3, 1, 2], 2) == [0, 2]

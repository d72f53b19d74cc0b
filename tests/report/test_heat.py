"""The map of pairs: errors below the diagonal, what there is above it, and nothing that saturates."""

import pytest
from matplotlib.colors import to_hex

from privot.report.charts import MAX_PAIRED, draw_heat_map, worst
from privot.report.panels import ERROR, LEARNED, PRIVATE, TITLE, inline_svg

OWN = {"a": 0.01, "b": 0.02, "c": 0.03}
BELOW = {("a", "b"): 0.1, ("a", "c"): 0.2, ("b", "c"): 0.4}
ABOVE = {pair: 2 * error for pair, error in BELOW.items()}
WORDS = ("own", "error", "there")


def cells(heat):
    """Tiles by row and column: color, strength, description."""
    tiles = [patch for patch in heat.artists if patch.get_gid()]
    places = [(int(tile.get_y()), int(tile.get_x())) for tile in tiles]
    said = [tile.get_gid().removeprefix(TITLE) for tile in tiles]
    kinds = [(to_hex(tile.get_facecolor()), tile.get_alpha()) for tile in tiles]
    return {place: (*kind, words) for place, kind, words in zip(places, kinds, said, strict=True)}


def texts(heat):
    return [(*text.get_position(), text.get_text()) for text in heat.texts]


def test_numbers_stand_where_their_columns_cross():
    heat = draw_heat_map(OWN, BELOW, ABOVE, WORDS)
    numbers = {(y - 0.5, x - 0.5): text for x, y, text in texts(heat) if text.startswith(".")}
    assert numbers == {
        (0, 0): ".01", (1, 1): ".02", (2, 2): ".03",
        (1, 0): ".10", (2, 0): ".20", (2, 1): ".40",
        (0, 1): ".20", (0, 2): ".40", (1, 2): ".80",
    }  # fmt: skip
    place = cells(heat)
    assert place[2, 1] == (ERROR, pytest.approx(0.707), "b × c: error 0.400")
    assert place[1, 2][0] == PRIVATE
    assert place[1, 1][0] == LEARNED
    html = inline_svg(heat, "pairs")
    assert html.count("<title>") == 9
    assert "<title>b × c: error 0.400</title>" in html


def test_only_the_largest_has_the_full_color():
    heat = draw_heat_map(OWN, BELOW, ABOVE, WORDS)
    strengths = sorted(strength for _, strength, _ in cells(heat).values())
    assert strengths[-1] == 1 > strengths[-2]
    assert strengths[0] > 0.1  # a hundredth of it is seen
    marks = [(y, text) for x, y, text in texts(heat) if x > 3]
    assert [mark for _, mark in marks] == ["0", "0.05", "0.2", "0.45", "0.8"]
    (ground, _), *rest, (end, _) = marks
    for y, mark in rest:
        assert 0.8 * ((ground - y) / (ground - end)) ** 2 == pytest.approx(float(mark))


def test_of_many_columns_the_worst_are_shown():
    names = [f"a column with a long name, number {i}" for i in range(40)]
    pairs = {(names[i], names[j]): 0.1 + 0.001 * i for j in range(40) for i in range(j)}
    heat = draw_heat_map(dict.fromkeys(names, 0.0), pairs, pairs, WORDS)
    assert len(cells(heat)) == MAX_PAIRED**2
    names = [text for *_, text in texts(heat) if text.startswith("a")]
    assert len(names) == 2 * MAX_PAIRED
    assert max(map(len, names)) == 16
    assert len(heat.texts) == len(names) + 5  # no numbers in cells
    assert worst([3, 1, 2], 2) == [0, 2]


def test_names_stand_as_they_are():
    names = ["$a$ & $b$", "<列>", "#c0304f 0.12345"]
    pairs = {(names[i], names[j]): 0.1 for j in range(3) for i in range(j)}
    html = inline_svg(draw_heat_map(dict.fromkeys(names, 0.0), pairs, pairs, WORDS), "pairs")
    assert html.count(">$a$ &amp; $b$</text>") == html.count(">&lt;列&gt;</text>") == 2
    assert html.count(">#c0304f 0.12345</text>") == 2
    assert "<title>$a$ &amp; $b$ × &lt;列&gt;: error 0.100</title>" in html

"""Figures leave no trace in the process, and pages escape what they are given."""

import base64

import matplotlib as mpl
import matplotlib.style
import pytest

from privot.report.panels import (
    INK,
    LEARNED,
    NIGHT,
    PRIVATE,
    RECEIVED,
    data_uri,
    new_figure,
    styled,
    write_page,
)


def test_the_style_holds_inside_alone():
    before = dict(mpl.rcParams)
    with styled():
        assert mpl.rcParams["axes.titlecolor"] == INK
    figure = new_figure(2, 1)
    assert figure.get_size_inches().tolist() == [2, 1]
    assert dict(mpl.rcParams) == before


def test_the_style_is_one_that_matplotlib_takes_by_name():
    with mpl.style.context(["privot.report.paper", "privot.report.night"]):
        colors = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
        assert mpl.colors.same_color(mpl.rcParams["figure.facecolor"], NIGHT)
    assert mpl.colors.same_color(colors[:3], [PRIVATE, RECEIVED, LEARNED])


def test_a_figure_is_a_picture_of_its_size():
    scheme, text = data_uri(new_figure(2, 1), dpi=50).split(",")
    assert scheme == "data:image/png;base64"
    content = base64.b64decode(text)
    assert content.startswith(b"\x89PNG")
    assert [int.from_bytes(content[i : i + 4]) for i in (16, 20)] == [100, 50]


def test_a_page_with_a_field_missing_leaves_the_old_one(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(TypeError, match="StrictUndefined"):
        write_page(path, "image_fit.html", {})
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]

"""Maps keep the shape of the land, and say where and how large it is."""

import numpy as np
import pytest

from privot.report.panels import Map, draw_maps


@pytest.fixture(scope="module")
def figure():
    points = np.random.default_rng(0).uniform([0, 50], [10, 60], (100, 2))
    maps = [Map("a", "b", points), Map("c", "d", points, "both"), Map("e", "f", points, "both")]
    return draw_maps(maps, ((0.0, 10.0), (50.0, 60.0)))


def texts(labels):
    return [label.get_text() for label in labels]


def test_maps_keep_the_shape_of_the_land(figure):
    """A degree of longitude is drawn shorter by the cosine of the latitude."""
    assert figure.axes[0].get_aspect() == pytest.approx(1 / np.cos(np.deg2rad(55)))
    land = ((0.0, 10.0), (50.0, 70.0))
    square = draw_maps([Map("a", "b", np.array([[5.0, 55.0]]))], land, geographic=False)
    assert square.axes[0].get_aspect() == pytest.approx(0.5)


def test_axes_are_in_degrees_and_in_kilometers(figure):
    first, middle, last = figure.axes
    assert texts(first.get_xticklabels())[:2] == ["0°", "2° E"]
    assert texts(first.get_yticklabels())[-1] == "60° N"
    assert not middle.axison
    up = dict(zip(texts(last.get_yticklabels()), last.get_yticks(), strict=True))
    assert up["1000"] == pytest.approx(50 + 1000 / 111.2, rel=1e-4)
    across = dict(zip(texts(last.get_xticklabels()), last.get_xticks(), strict=True))
    assert across["600"] == pytest.approx(600 / (111.2 * np.cos(np.deg2rad(55))), rel=1e-4)


def test_neighbors_of_a_group_stand_under_its_name(figure):
    assert texts(figure.texts) == ["both"]
    (line,) = figure.findobj(lambda artist: artist.get_gid() == "group")
    first, _, last = (axis.get_position() for axis in figure.axes)
    assert first.x1 < line.get_xdata()[0] < line.get_xdata()[1] == pytest.approx(last.x1)

"""Coordinates: the lowest cosines of images, all coordinates of vectors, in the unit ball."""

import numpy as np
import pytest

from privot.errors import PrivotError
from privot.mechanisms.candidates.coordinates import Coordinates
from privot.schema import Schema


def column(lines):
    return Schema.from_toml(f"[columns.x]\n{lines}").columns["x"]


IMAGE = 'kind = "array"\nbounds = [0, 255]\nshape = '
VECTOR = 'kind = "vector"\ncolumns = ["a", "b", "c", "d"]\nradius = 2.0'


def images(shape, count=6):
    """Smooth ones, raw."""
    rng = np.random.default_rng(0)
    ramp = np.linspace(0, 1, shape[0])[:, None] * np.linspace(0, 1, shape[1])
    waves = 100 * ramp[..., None] * rng.random((count, 1, 1, int(np.prod(shape[2:], dtype=int))))
    return waves.reshape(count, *shape) + 80 * rng.random((count, *[1] * len(shape)))


@pytest.mark.parametrize(
    "lines",
    ["[8, 6]", "[8, 6, 3]", '[8, 6]\nradius = 14.0\ncenter = "lower"', '[8, 8]\ntransform = "dct"',
     '[8, 6]\ntransform = "dct"\nlow_pass = 5'],
)  # fmt: skip
def test_images_come_back_but_for_high_frequencies(lines):
    declared = column(IMAGE + lines)
    raw = images(declared.shape)
    units = declared.domain.encode(declared.to_unit_pixels(raw.reshape(len(raw), -1)))
    most = declared.domain.dimension
    whole = Coordinates(declared, most, radius=1000.0)
    np.testing.assert_allclose(whole.decode(whole.encode(units)), units, atol=1e-9)
    few = Coordinates(declared, most // 2, radius=1000.0)
    np.testing.assert_array_equal(few.encode(units), whole.encode(units)[:, : most // 2])
    error = np.linalg.norm(few.decode(few.encode(units)) - units, axis=1)
    assert (error < 0.2 * np.linalg.norm(units, axis=1)).all()


def test_the_first_coordinates_are_means_of_each_channel():
    declared = column(IMAGE + "[4, 6, 3]")
    colors = np.broadcast_to([-1.0, 0.0, 0.5], (1, 4, 6, 3)).reshape(1, -1)
    found = Coordinates(declared, 9, radius=100.0).encode(colors)
    expected = np.array([-1.0, 0.0, 0.5, *[0.0] * 6]) * np.sqrt(24) / 100
    np.testing.assert_allclose(found[0], expected, atol=1e-12)


def test_images_count_from_their_center():
    dark = column(IMAGE + '[4, 4]\nradius = 8.0\ncenter = "lower"')
    assert not Coordinates(dark, 5, radius=1.0).encode(np.full((1, 16), -1.0)).any()


def test_what_is_longer_is_pulled_back_and_missing_stays():
    declared = column(VECTOR)
    units = np.array([[0.3, 0, 0, 0.4], [0.0, 0.0, -1.0, 0.0], [np.nan] * 4])
    found = Coordinates(declared, 4, radius=0.5).encode(units)
    np.testing.assert_allclose(found[:2], [[0.6, 0, 0, 0.8], [0, 0, -1, 0]])
    assert np.isnan(found[2]).all()


@pytest.mark.parametrize(
    ("count", "radius", "told"),
    [(3, 1.0, "all of them"), (5, 1.0, "as many"), (4, 0.0, "radius"), (4, np.inf, "radius")],
)
def test_what_is_no_map_is_refused(count, radius, told):
    with pytest.raises(PrivotError, match=told):
        Coordinates(column(VECTOR), count, radius)

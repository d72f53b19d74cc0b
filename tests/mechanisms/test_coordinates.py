"""Coordinates: the lowest cosines of images, all coordinates of vectors, on a sphere."""

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.mechanisms.candidates.features import Coordinates
from privot.schema import Schema


def column(lines):
    return Schema.from_toml(f"[columns.x]\n{lines}").columns["x"]


IMAGE = 'kind = "array"\nbounds = [0, 255]\nshape = '
VECTOR = 'kind = "vector"\ncolumns = ["a", "b", "c", "d"]\nradius = 2.0'


def images(shape, count=6):
    """With some contrast, raw."""
    rng = np.random.default_rng(0)
    ramp = np.linspace(0, 1, shape[0])[:, None] * np.linspace(0, 1, shape[1])
    ramp = ramp + 0.3 * (np.indices(shape[:2]).sum(axis=0) % 2)
    color = 0.7 + 0.3 * rng.random((count, 1, 1, int(np.prod(shape[2:], dtype=int))))
    return 180 * (ramp[..., None] * color).reshape(count, *shape)


SHAPES = [
    "[8, 6]", "[8, 6, 3]", '[8, 6]\nradius = 14.0\ncenter = "lower"',
    '[8, 8]\ntransform = "dct"', '[8, 6]\ntransform = "dct"\nlow_pass = 5',
]  # fmt: skip


@pytest.mark.parametrize("lines", SHAPES)
def test_images_come_back_but_for_high_frequencies(lines):
    declared = column(IMAGE + lines)
    raw = images(declared.shape)
    units = declared.domain.encode(declared.to_unit_pixels(raw.reshape(len(raw), -1)))
    pixels = declared.domain.decode(units)
    most = declared.domain.dimension - Coordinates(declared, 1).channels
    whole = Coordinates(declared, most)
    points = whole.encode(units)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(whole.cosines.to_pixels(*whole.decode(points)), pixels, atol=1e-9)
    few = Coordinates(declared, most // 2)
    x, brightness = few.decode(few.encode(units))
    np.testing.assert_allclose(x, few.cosines.from_pixels(pixels)[0], atol=1e-9)
    np.testing.assert_allclose(x, whole.cosines.from_pixels(pixels)[0][:, : most // 2], atol=1e-9)
    np.testing.assert_allclose(brightness, whole.cosines.from_pixels(pixels)[1], atol=1e-9)


def test_brightness_is_the_mean_of_each_channel_whatever_the_center():
    for center in ("", '\nradius = 90.0\ncenter = "lower"'):
        declared = column(IMAGE + "[4, 6, 3]" + center)
        colors = np.broadcast_to([-1.0, 0.0, 0.5], (1, 4, 6, 3)).reshape(1, -1)
        coordinates = Coordinates(declared, 9)
        points = coordinates.encode(colors)
        np.testing.assert_allclose(points[0, -3:], 0.3 / np.sqrt(3) * np.array([-1, 0, 0.5]))
        _, brightness = coordinates.decode(points)
        np.testing.assert_allclose(brightness, [[-1.0, 0.0, 0.5]], atol=1e-12)


def test_vectors_are_direction_and_length_and_missing_stays():
    coordinates = Coordinates(column(VECTOR), 4)
    assert coordinates.typical_length == pytest.approx(0.5)
    units = np.array([[0.3, 0, 0, 0.4], [0.0, 0.0, -1.0, 0.0], [0.0] * 4, [np.nan] * 4])
    found = coordinates.encode(units)
    np.testing.assert_allclose(found[0], [0.6, 0, 0, 0.8, 0.0], atol=1e-12)
    half = np.sqrt(1 - 0.15**2)
    np.testing.assert_allclose(found[1], [0, 0, -half, 0, 0.15], atol=1e-12)
    np.testing.assert_allclose(found[2], [np.sqrt(1 - 0.3**2), 0, 0, 0, -0.3], atol=1e-12)
    assert np.isnan(found[3]).all()
    np.testing.assert_allclose(coordinates.decode(found[:2])[0], units[:2], atol=1e-12)


@pytest.mark.parametrize("units", [1e-310, 1e-160, 5e-324])
def test_tiny_vectors_have_finite_points(units):
    found = Coordinates(column(VECTOR), 4).encode(np.full((1, 4), units))
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("count", "told"), [(3, "all of them"), (5, "all of them")])
def test_what_is_no_map_is_refused(count, told):
    with pytest.raises(PrivotError, match=told):
        Coordinates(column(VECTOR), count)


@pytest.mark.parametrize("count", [0, 24, 1.5])
def test_more_cosines_than_there_are_are_refused(count):
    with pytest.raises(PrivotError, match="cosines of an image"):
        Coordinates(column(IMAGE + "[4, 6]"), count)

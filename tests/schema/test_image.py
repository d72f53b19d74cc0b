"""Encoded images: no two are farther apart than the diameter, and some are as far."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.fft import dctn, idctn

from privot.schema import ImageDomain

GRAY, COLOR = (6, 8), (4, 4, 3)


DOMAINS = {
    "box": ImageDomain(GRAY),
    "color": ImageDomain(COLOR),
    "ball": ImageDomain(GRAY, radius=3.0),
    "wide ball": ImageDomain(GRAY, radius=500.0),
    "dark ball": ImageDomain(GRAY, radius=3.0, center_at="lower"),
    "l1 ball": ImageDomain(GRAY, radius=9.0, norm=1),
    "dark l1 ball": ImageDomain(GRAY, radius=9.0, norm=1, center_at="lower"),
    "l1 ball of a part": ImageDomain(GRAY, radius=2.75, norm=1),
    "dark l1 ball of a part": ImageDomain(GRAY, radius=2.75, norm=1, center_at="lower"),
    "wide dark l1 ball": ImageDomain((3, 3), radius=9.5, norm=1, center_at="lower"),
    "cosine": ImageDomain(GRAY, low_pass=GRAY),
    "low pass": ImageDomain(GRAY, low_pass=(3, 3)),
    "color low pass": ImageDomain(COLOR, low_pass=(2, 2)),
    "dark ball, low pass": ImageDomain(GRAY, radius=3.0, center_at="lower", low_pass=(4, 4)),
    "ball, low pass": ImageDomain(GRAY, radius=3.0, low_pass=(4, 4)),
    "l1 ball of coefficients": ImageDomain(GRAY, radius=5.0, norm=1, low_pass=(4, 4)),
    "dark l1 ball of coefficients": ImageDomain(
        GRAY, radius=5.0, norm=1, center_at="lower", low_pass=(4, 4)
    ),
}


each_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS.keys())


def nasty_images(domain, rng):
    """Images that reach corners, edges and frequencies, and numbers that are no images."""
    size = domain.num_pixels
    half = np.where(np.arange(size) < size // 2, 1.0, -1.0)
    board = np.where(np.indices(domain.shape).sum(axis=0) % 2, 1.0, -1.0).reshape(-1)
    flat = np.stack([np.ones(size), -np.ones(size), half, -half, board, -board, 0 * half])
    signs = rng.choice([-1.0, 1.0], (100, size))
    single = 2 * np.eye(size) - 1
    noise = rng.standard_normal((100, size)) * np.exp(rng.uniform(-3, 8, (100, 1)))
    waves = domain.decode(50 * np.eye(domain.dimension))
    far = np.array([[1e300], [-1e300]]) * np.ones(size)
    return np.concatenate([flat, signs, single, 1 - single, noise, waves, -waves, far])


def largest_distance(points, norm):
    gaps = points[:, None] - points
    return np.linalg.norm(gaps, ord=norm, axis=2).max()


@each_domain
@pytest.mark.parametrize("norm", [1, 2])
def test_no_two_records_are_farther_apart_than_the_diameter(domain, norm):
    for seed in range(3):
        records = domain.encode(nasty_images(domain, np.random.default_rng(seed)))
        assert records.shape[1] == domain.dimension
        assert largest_distance(records, norm) <= domain.diameter(norm)


@pytest.mark.parametrize("low_pass", [None, (16, 16)])
def test_roundings_of_a_tiny_ball_are_counted(low_pass):
    """They are those of numbers near −1, whatever the radius."""
    domain = ImageDomain((16, 16), radius=1e-6, center_at="lower", low_pass=low_pass)
    rng = np.random.default_rng(0)
    for _ in range(50):
        chosen, bright = rng.random(256) < 0.5, rng.uniform(-1, 1, 256)
        records = domain.encode(np.stack([np.where(s, bright, -1) for s in (chosen, ~chosen)]))
        gap = (records[0] - records[1]).astype(np.longdouble)
        assert np.sqrt((gap**2).sum()) <= domain.diameter(2)
        assert np.abs(gap).sum() <= domain.diameter(1)


@each_domain
def test_projected_points_are_no_farther_apart_either(domain):
    rng = np.random.default_rng(0)
    points = domain.project(rng.standard_normal((300, domain.dimension)) * 100)
    for norm in (1, 2):
        assert largest_distance(points, norm) <= domain.diameter(norm)


TIGHT = [
    ("box", 2, 1.0),
    ("box", 1, 1.0),
    ("color", 2, 1.0),
    ("ball", 2, 1.0),
    ("wide ball", 2, 1.0),
    ("dark ball", 2, 1.0),
    ("dark l1 ball", 1, 1.0),
    ("l1 ball", 1, 1.0),
    ("l1 ball", 2, 1.0),
    ("l1 ball of a part", 2, 1.0),
    ("dark l1 ball", 2, 1.0),
    ("dark l1 ball of a part", 2, 1.0),
    ("wide dark l1 ball", 2, 1.0),
    ("cosine", 2, 1.0),
    ("low pass", 2, 1.0),
    ("color low pass", 2, 1.0),
    ("ball, low pass", 2, 1.0),
    # Halves of an image are not smooth: what the mask cuts from them is not made up for.
    ("dark ball, low pass", 2, 0.9),
]


@pytest.mark.parametrize(("name", "norm", "share"), TIGHT)
def test_some_pair_is_that_far_apart(name, norm, share):
    domain = DOMAINS[name]
    pairs = domain.far_apart()
    reached = max(np.linalg.norm(first - second, ord=norm) for first, second in pairs)
    assert share * (1 - 1e-9) * domain.diameter(norm) <= reached <= domain.diameter(norm)


def test_known_diameters():
    assert ImageDomain((28, 28)).diameter(2) == 56.0
    assert ImageDomain((28, 28)).diameter(1) == 2 * 784
    paper = ImageDomain((28, 28), radius=20.0)
    assert paper.diameter(2) == pytest.approx(40.0, rel=1e-9)
    dark = ImageDomain((28, 28), radius=20.0, center_at="lower")
    assert dark.diameter(2) == pytest.approx(20 * np.sqrt(2), rel=1e-9)
    coefficients = ImageDomain((28, 28), radius=140.0, norm=1, low_pass=(28, 28))
    assert coefficients.diameter(1) == pytest.approx(280.0, rel=1e-9)


@pytest.mark.parametrize("shape", [GRAY, COLOR])
def test_coefficients_are_those_of_scipy(shape):
    rng = np.random.default_rng(0)
    images = rng.uniform(-1, 1, (5, int(np.prod(shape))))
    domain = ImageDomain(shape, low_pass=shape[:2])
    cubes = images.reshape(5, *shape)
    expected = dctn(cubes, axes=(1, 2), norm="ortho")
    np.testing.assert_allclose(domain.encode(images), expected.reshape(5, -1), atol=1e-12)
    np.testing.assert_allclose(domain.decode(domain.encode(images)), images, atol=1e-12)
    masked = ImageDomain(shape, low_pass=(2, 2))
    np.testing.assert_allclose(
        masked.encode(images), expected[:, :2, :2].reshape(5, -1), atol=1e-12
    )
    filled = np.zeros_like(expected)
    filled[:, :2, :2] = expected[:, :2, :2]
    smooth = idctn(filled, axes=(1, 2), norm="ortho")
    np.testing.assert_allclose(
        masked.decode(masked.encode(images)), smooth.reshape(5, -1), atol=1e-12
    )


@pytest.mark.parametrize("name", ["box", "color", "ball", "dark ball", "l1 ball", "dark l1 ball"])
@given(seed=st.integers(0, 2**32 - 1))
def test_records_of_pixels_are_left_alone(name, seed):
    domain = DOMAINS[name]
    pixels = np.random.default_rng(seed).standard_normal((10, domain.num_pixels))
    records = domain.encode(pixels)
    assert (np.abs(records) <= 1).all()
    np.testing.assert_allclose(domain.project(records), records, atol=1e-9)


def test_the_plain_box_is_on_the_grid_and_nothing_else_is():
    assert [name for name, domain in DOMAINS.items() if domain.on_grid] == ["box", "color"]


@pytest.mark.parametrize("name", ["cosine", "low pass", "color low pass"])
def test_no_images_have_no_coefficients(name):
    domain = DOMAINS[name]
    none = domain.decode(np.empty((0, domain.dimension)))
    assert none.shape == (0, domain.num_pixels)
    assert domain.transform(none).shape == (0, domain.dimension)

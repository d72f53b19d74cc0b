"""What a domain promises holds for what the encoder really makes of raw values."""

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from privot import PrivotError, Schema
from privot.randomizer.reports.split import SplitReport
from privot.schema import Box, ImageDomain, L1Ball, L2Ball
from studies.rivals.planar_laplace import PlanarLaplace


def test_no_promise_by_distance_on_a_curve():
    """Two places 2 m apart in a U-shaped road were projected 10 km apart: 5.0 for .001."""
    road = Schema.from_toml("""
[columns.place]
kind = "vector"
columns = ["x", "y"]
support = [[0, 0], [0, 10], [10, 10], [10, 0]]
""").point_column("place")
    with pytest.raises(PrivotError, match="not convex"):
        PlanarLaplace.calibrate_geo(road.domain, epsilon_per_unit=0.5)
    local = PlanarLaplace.calibrate(road.domain, epsilon=5.0)
    with pytest.raises(PrivotError, match="not convex"):
        local.geo_guarantee(road.domain, "kilometer")
    assert local.guarantee(road.domain).epsilon <= 5.0


CONVEX = {
    "ball": ("radius = 3.0", L2Ball(2, 3.0)),
    "quarter": ("radius = 3.0\nnon_negative = true", L2Ball(2, 3.0, True)),
    "diamond": ("radius = 3.0\nnorm = 1", L1Ball(2, 3.0)),
    "square": ("bounds = [[0, 6], [1, 7]]", Box((0.0, 1.0), (6.0, 7.0))),
}


@pytest.mark.parametrize("name", CONVEX)
def test_rounded_records_are_as_near_as_the_promise_counts(name):
    """Raw places at any distance from each other and from the domain, through the real encoder."""
    lines, domain = CONVEX[name]
    schema = Schema.from_toml(f'[columns.v]\nkind = "vector"\ncolumns = ["x", "y"]\n{lines}')
    mechanism = PlanarLaplace.calibrate_geo(domain, epsilon_per_unit=200.0)
    promise = mechanism.geo_guarantee(domain)
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((4000, 2)) * 10.0 ** rng.uniform(-1, 4, (4000, 1)) + domain.center
    # Pairs across the boundary, where what is inside is left alone and what is outside moved.
    edge = domain.project(raw[:1000])
    raw = np.concatenate([raw, edge, edge * (1 + 1e-15)])
    near = raw + rng.standard_normal(raw.shape) * 10.0 ** rng.uniform(-15, 1, (len(raw), 1))
    cells, report = [], SplitReport("v", schema.columns["v"], mechanism)
    for places in (raw, near):
        table = pa.table({"x": places[:, 0], "y": places[:, 1]})
        cells.append(np.rint(report.encode(table) / mechanism.grid))
    for first, second, x, y in zip(*cells, raw, near, strict=True):
        apart = Fraction(float(((first - second) ** 2).sum())) * Fraction(mechanism.grid) ** 2
        loss_squared = apart / Fraction(mechanism.scale) ** 2
        exact = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, y, strict=True))
        # (a √d² + c)² ≥ loss², without taking the root of what is exact
        rate, extra = Fraction(promise.epsilon_per_unit), Fraction(promise.epsilon_rounding)
        below = Fraction(float(np.nextafter(np.sqrt(float(exact)), 0)))
        assert loss_squared <= (rate * below + extra) ** 2 * (1 + Fraction(2) ** -50)


def corners(pixels, side, radius, signs):
    """All corners of the box cut by the ℓ1 ball: pixels at 0 or ends, one of them in between."""
    found = set()
    for chosen in itertools.product((0, *(side * s for s in signs)), repeat=pixels):
        length = sum(map(abs, chosen))
        if length <= radius:
            found.add(chosen)
            gap = radius - length
            for j in range(pixels):
                if chosen[j] == 0 and gap < side:
                    found |= {(*chosen[:j], s * gap, *chosen[j + 1 :]) for s in signs}
    return np.array(sorted(found), float)


@pytest.mark.parametrize("center", ["middle", "lower"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 3), (2, 2), (1, 5)])
@pytest.mark.parametrize("radius", [0.3, 1.0, 1.7, 2.0, 2.6, 3.0, 4.25, 6.5, 9.0, 30.0])
def test_an_l1_ball_of_pixels_has_the_diameter_of_what_is_attained(center, shape, radius):
    """It was that of the ball alone, or of the box: up to five times as much noise as is needed."""
    domain = ImageDomain(shape, radius=radius, norm=1, center_at=center)
    pixels = domain.num_pixels
    side, signs = (1, (1, -1)) if center == "middle" else (2, (1,))
    points = corners(pixels, side, min(radius, float(side * pixels)), signs)
    gaps = points[:, None] - points
    largest = np.sqrt((gaps**2).sum(axis=2)).max()
    assert domain.diameter(2) == pytest.approx(largest, rel=1e-9)
    records = domain.encode(points + (0.0 if center == "middle" else -1.0))
    reached = np.sqrt(((records[:, None] - records) ** 2).sum(axis=2)).max()
    assert largest * (1 - 1e-9) <= reached <= domain.diameter(2)


@pytest.mark.parametrize("center", ["middle", "lower"])
def test_no_search_finds_images_farther_apart(center):
    """Ascent from random pairs of raw images, through the encoder, which lands in box and ball."""
    rng = np.random.default_rng(1)
    for radius in (0.4, 2.3, 5.0, 11.7):
        domain = ImageDomain((3, 4), radius=radius, norm=1, center_at=center)
        middle = 0.0 if center == "middle" else -1.0
        x, y = (rng.standard_normal((400, 12)) * 2 for _ in range(2))
        for _ in range(200):
            first, second = domain.encode(x), domain.encode(y)
            gap = first - second
            x, y = first + 0.3 * gap, second - 0.3 * gap
        for records in (first, second):
            assert np.abs(records).max() <= 1.0
            assert np.abs(records - middle).sum(axis=1).max() <= radius * (1 + 1e-12)
        best = np.linalg.norm(first - second, axis=1).max()
        assert 0.9 * domain.diameter(2) <= best <= domain.diameter(2)


def test_the_papers_image_needs_a_fifth_of_the_noise():
    image = ImageDomain((28, 28), radius=140.0, norm=1)
    assert image.diameter(2) == pytest.approx(2 * np.sqrt(140.0), rel=1e-9)
    wide = ImageDomain((64, 64), radius=40.0, norm=1)
    assert wide.diameter(2) < 80.0 / 6

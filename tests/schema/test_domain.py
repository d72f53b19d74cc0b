"""Domains: projections land inside, diameters are reached and never passed."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from privot.core.errors import PrivotError
from privot.schema import Box, L1Ball, L2Ball, Polyline
from privot.schema.domains import from_unit, to_unit

CIRCLE = Polyline(tuple((float(np.cos(t)), float(np.sin(t))) for t in np.linspace(0, np.pi, 181)))


DOMAINS = [
    Box((-1.0, 0.0, 3.0), (2.0, 5.0, 3.5)),
    L1Ball(4, 2.5),
    L1Ball(4, 2.5, non_negative=True),
    L2Ball(5, 0.7),
    L2Ball(5, 0.7, non_negative=True),
    L2Ball(1, 3.0, non_negative=True),
    L1Ball(1, 3.0, non_negative=True),
    CIRCLE,
]


each_domain = pytest.mark.parametrize(
    "domain", DOMAINS, ids=[*map(repr, DOMAINS[:-1]), "half a circle"]
)


def contains(domain, x, slack=1e-9):
    return np.abs(domain.project(x) - x).max() <= slack


@each_domain
@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.1, 1.0, 30.0, 1e150]))
def test_projection_lands_inside_and_stays(domain, seed, spread):
    x = np.random.default_rng(seed).standard_normal((20, domain.dimension)) * spread
    projected = domain.project(x)
    assert np.isfinite(projected).all()
    np.testing.assert_allclose(domain.project(projected), projected, atol=1e-9)


@each_domain
@pytest.mark.parametrize("norm", [1, 2])
def test_diameter_bounds_every_pair_and_is_reached(domain, norm):
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((1000, domain.dimension))
    corners = np.sign(directions) * (rng.random(directions.shape) < 0.5)
    axes = np.concatenate([np.eye(domain.dimension), -np.eye(domain.dimension)])
    x = domain.project(np.concatenate([directions, corners, axes, directions * 10]) * 50)
    best = pdist(x, "cityblock" if norm == 1 else "euclidean").max()
    assert best <= domain.diameter(norm) * (1 + 1e-12)
    assert best >= domain.diameter(norm) * 0.93


@each_domain
def test_unit_chart_is_inverted_and_maps_the_domain_to_its_unit(domain):
    rng = np.random.default_rng(1)
    x = domain.project(rng.standard_normal((50, domain.dimension)) * 3)
    u = to_unit(domain, x)
    np.testing.assert_allclose(from_unit(domain, u), x, atol=1e-12)
    assert contains(domain.unit, u)
    assert np.abs(u).max() <= 1 + 1e-12


@each_domain
def test_whatever_is_finite_is_projected(domain):
    """A record that is refused for its size tells its size."""
    largest = np.finfo(float).max
    x = np.array([[largest], [-largest], [1e200], [1e154], [5e-324]]) * np.ones(domain.dimension)
    u = to_unit(domain, domain.project(x))
    assert np.isfinite(u).all()
    assert np.abs(u).max() <= 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Box((1.0,), (1.0,)), "not an interval"),
        (lambda: Box((0.0,), (float("inf"),)), "not an interval"),
        (lambda: Box((0.0, 1.0), (2.0,)), "one pair a coordinate"),
        (lambda: Box((0.0,), (5e-324,)), "too far out or too close together"),
        (lambda: Box((-1.7e308,), (1.7e308,)), "too far out or too close together"),
        (lambda: Box((1e9,), (1e9 + 0.01,)), "count from another origin"),
        (lambda: L2Ball(3, -1.0), "radius -1.0 is not positive"),
        (lambda: L2Ball(3, 1e-200), "in another unit"),
        (lambda: Polyline(((0.0, 0.0), (1e200, 0.0))), "in a larger unit"),
        (lambda: L1Ball(0, 1.0), "dimension 0"),
        (lambda: Polyline(((0.0, 0.0),)), "at least two points"),
        (lambda: Polyline(((1.0, 1.0), (1.0, 1.0))), "single point"),
        (lambda: Box((0.0,), (1.0,)).diameter(3), "norm 3 is not known"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(PrivotError, match=words):
        make()


@each_domain
@pytest.mark.parametrize("norm", [1, 2])
def test_diameters_round_up(domain, norm):
    """In exact arithmetic: the corners' distance is not above the float that bounds it."""
    if isinstance(domain, Box):
        sides = [Fraction(h) - Fraction(low) for low, h in zip(domain.lower, domain.upper)]
        exact = sum(sides) if norm == 1 else sum(side**2 for side in sides)
        assert Fraction(domain.diameter(norm)) ** norm >= exact
    for dimension in range(2, 40):
        ball = L2Ball(dimension, 0.1)
        assert Fraction(ball.diameter(1)) ** 2 >= 4 * dimension * Fraction(0.1) ** 2
        assert Fraction(L2Ball(dimension, 0.1, True).diameter(2)) ** 2 >= 2 * Fraction(0.1) ** 2


@pytest.mark.parametrize(
    "domain",
    [
        Box((0.0,), (100.0,)),
        Box((0.0, -1.0, 2.0), (1.0, 5.0, 2.5)),
        *(ball(d, 3.0, sign) for ball in (L1Ball, L2Ball) for d in (1, 2, 5) for sign in (0, 1)),
        Polyline(((0.0, 0.0), (1.0, 0.0), (1.0, 2.0), (-3.0, 1.0))),
        Polyline(((0.0, 0.0), (1.4, 0.0), (0.9, 0.9))),  # ℓ1- and ℓ2-farthest pairs differ
    ],
    ids=repr,
)
def test_far_pairs_lie_in_the_domain_and_attain_both_diameters(domain):
    pairs = domain.unit.far_apart()
    for pair in pairs:
        for point in pair:
            assert np.allclose(domain.unit.project(point[None])[0], point, atol=1e-9)
    for norm in (1, 2):
        reached = max(np.linalg.norm(first - second, ord=norm) for first, second in pairs)
        assert reached == pytest.approx(domain.unit.diameter(norm), rel=1e-9)

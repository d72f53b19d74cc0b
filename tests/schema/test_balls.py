"""Balls: a projection is the nearest point, and never leaves the radius by a rounding."""

import numpy as np

from privot.schema import Box, L1Ball, L2Ball, Polyline

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


def test_ball_projections_are_nearest_points():
    """No point of the ball is nearer: the projection's variational inequality."""
    rng = np.random.default_rng(2)
    for domain in DOMAINS[1:7]:
        x = rng.standard_normal((200, domain.dimension)) * 3
        inside = domain.project(rng.standard_normal((200, domain.dimension)) * 3)
        nearest = domain.project(x)
        assert ((x - nearest) * (inside - nearest)).sum(1).max() <= 1e-9


def test_balls_never_leave_their_radius_even_by_a_rounding_error():
    x = np.random.default_rng(3).standard_normal((10_000, 7)) * 1e3
    assert np.sqrt((L2Ball(7, 1.0).project(x) ** 2).sum(1)).max() <= 1
    assert np.abs(L1Ball(7, 1.0).project(x)).sum(1).max() <= 1


def test_balls_of_many_dimensions_too():
    """Running sums over thousands of coordinates must not add their roundings to the radius."""
    x = np.random.default_rng(4).standard_normal((20, 20_000))
    assert np.abs(L1Ball(20_000, 1.0).project(x)).sum(1).max() <= 1

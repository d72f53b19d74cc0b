"""The farthest points of each domain: the records that noise protects least, for audits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from privot.errors import PrivotError
from privot.schema.domains.domain import Array, Box, Domain, L1Ball, L2Ball
from privot.schema.domains.image import ImageDomain
from privot.schema.domains.polyline import Polyline

Pair = tuple[Array, Array]


def farthest_pairs(domain: Domain) -> list[Pair]:
    """Pairs of points in unit coordinates, each point (d,), that attain the ℓ1 and ℓ2 diameters.

    >>> [(first.tolist(), second.tolist()) for first, second in farthest_pairs(Box((0.0,), (9.0,)))]
    [([-1.0], [1.0])]

    Raises:
        PrivotError: for a domain whose ends are not known here.
    """
    if type(domain) not in _ENDS:
        raise PrivotError(
            f"domain {type(domain).__name__} has no known farthest points: "
            f"use one of {', '.join(known.__name__ for known in _ENDS)}"
        )
    unit = domain.unit
    return [
        (unit.project(first[None])[0], unit.project(second[None])[0])
        for first, second in _ENDS[type(domain)](unit)
    ]


def _box_ends(box: Box) -> list[Pair]:
    return [(np.asarray(box.lower), np.asarray(box.upper))]


def _l2_ball_ends(ball: L2Ball) -> list[Pair]:
    # Spread over all coordinates, the two points are ℓ1-farthest among those ℓ2-farthest.
    d = ball.dimension
    if not ball.non_negative:
        return [(np.full(d, -1 / np.sqrt(d)), np.full(d, 1 / np.sqrt(d)))]
    low = np.arange(d) < d // 2
    return [(low / np.sqrt(max(1, d // 2)), ~low / np.sqrt(d - d // 2))]


def _l1_ball_ends(ball: L1Ball) -> list[Pair]:
    corner = np.eye(ball.dimension)[0]
    if not ball.non_negative:
        return [(-corner, corner)]
    return [(np.eye(ball.dimension)[1] if ball.dimension > 1 else 0 * corner, corner)]


def _polyline_ends(line: Polyline) -> list[Pair]:
    points = np.asarray(line.corners)
    pairs = set()
    for norm in (1, 2):
        distances = [np.linalg.norm(points - corner, ord=norm, axis=1) for corner in points]
        first, second = np.unravel_index(int(np.argmax(distances)), (len(points), len(points)))
        pairs.add((int(first), int(second)))
    return [(points[first], points[second]) for first, second in sorted(pairs)]


_ENDS: dict[type, Callable[[Any], list[Pair]]] = {
    Box: _box_ends,
    L2Ball: _l2_ball_ends,
    L1Ball: _l1_ball_ends,
    Polyline: _polyline_ends,
    ImageDomain: ImageDomain.far_apart,
}

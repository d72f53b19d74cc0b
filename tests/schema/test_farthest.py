"""Farthest points lie in their domain and attain its diameters."""

import numpy as np
import pytest

from privot.errors import PrivotError
from privot.schema import Box, L1Ball, L2Ball, Polyline
from privot.schema.domains.farthest import farthest_pairs


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
def test_pairs_lie_in_the_domain_and_attain_both_diameters(domain):
    pairs = farthest_pairs(domain)
    for pair in pairs:
        for point in pair:
            assert np.allclose(domain.unit.project(point[None])[0], point, atol=1e-9)
    for norm in (1, 2):
        reached = max(np.linalg.norm(first - second, ord=norm) for first, second in pairs)
        assert reached == pytest.approx(domain.unit.diameter(norm), rel=1e-9)


def test_an_unknown_domain_is_refused():
    with pytest.raises(PrivotError, match="no known farthest points"):
        farthest_pairs(object())

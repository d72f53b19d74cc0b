"""Slopes and information are the derivatives of the likelihood of independent columns."""

import numpy as np
import pytest

from privot.local.classes.counts import count_tables
from privot.local.classes.expectation import curvature, expectation
from simulated_reports import draw_classes, draw_people, joint_reports, split_reports

SIZES = (4, 3, 5)


@pytest.mark.parametrize("make", [joint_reports, split_reports])
def test_they_are_derivatives(make):
    rng = np.random.default_rng(0)
    weights, tables = draw_classes(rng, SIZES, 2)
    people = draw_people(rng, weights, tables, 2000)
    counted = count_tables(make(rng, people, SIZES, 1.5), SIZES)
    q = np.concatenate([table @ weights for table in tables])
    found = curvature(counted, q)

    def likelihood(at):
        return expectation(counted, at[:, None], np.ones(1)).total(counted.counts)

    step = 1e-4
    bumps = step * np.eye(len(q))
    slope = [(likelihood(q + b) - likelihood(q - b)) / (2 * step) for b in bumps]
    np.testing.assert_allclose(found.slope, slope, rtol=1e-5)
    for first, stop in zip(counted.offsets[:-1], counted.offsets[1:], strict=True):
        for k in range(first, stop):
            for other in range(first, stop):
                a, b = bumps[k], bumps[other]
                rise = likelihood(q + a + b) - likelihood(q + a) - likelihood(q + b)
                second = -(rise + likelihood(q)) / step**2
                assert found.information[k, other - first] == pytest.approx(second, rel=0.01, abs=1)

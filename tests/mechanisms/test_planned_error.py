"""Planned errors: what is kept of waves is what reports keep, and more noise costs more."""

import math

import numpy as np
import pytest

from privot.mechanisms import Gaussian, Laplace, RandomizedResponse, Window
from privot.mechanisms.choice import planned_error
from privot.schema import Box, L2Ball, Polyline

PLANE = Box((0.0, 0.0), (1.0, 1.0))
WAVES = np.array([[0.0, math.pi], [math.pi / 2, math.pi], [3 * math.pi, 0.0]])
MECHANISMS = [
    Laplace.calibrate(PLANE, 20.0),
    Gaussian(0.2, 2.0**-19),
    Window.for_domain(PLANE, 3.0),
    Window(6.0, 2, 256, 20, shape="product"),
    Window(3.0, 2, 256, 30, area="l2_ball", nullable=True),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: f"{m.kind}")
def test_waves_are_kept_as_reports_say(mechanism):
    """Two records' means of a wave differ by what is kept of their difference.

    Twelve differences at most, each with a deviation of about .0016: .009 is 5.7 of them, 2e-7 in all.
    """
    means, places = [], np.array([[0.25, -0.5], [-0.375, 0.125]])
    # Of a product, waves along both coordinates are those along one as well.
    waves = WAVES[::2] if mechanism.kind == "window" and mechanism.shape == "product" else WAVES
    for place in places:
        records = np.tile(np.append(place, [0.0] * mechanism.flagged), (400_000, 1))
        reports = mechanism.privatize(records)
        angles = reports[:, :2] @ waves.T
        here = reports[:, -1:] == 0 if mechanism.flagged else 1.0
        means.append(np.stack([np.cos(angles) * here, np.sin(angles) * here]).mean(axis=1))
    true = [np.stack([np.cos(p @ waves.T), np.sin(p @ waves.T)]) for p in places]
    expected = mechanism.attenuation(waves) * (true[0] - true[1])
    np.testing.assert_allclose(means[0] - means[1], expected, atol=0.009)


@pytest.mark.parametrize(
    "domain",
    [Box((0.0,), (1.0,)), PLANE, L2Ball(3, 1.0), Polyline(((0.0, 0.0), (1.0, 0.0), (1.0, 2.0)))],
)
def test_less_privacy_and_more_people_cost_less_and_windows_least(domain):
    errors = {}
    for kind, make in (("window", Window.for_domain), ("laplace", Laplace.calibrate)):
        each = [planned_error(make(domain, epsilon), domain) for epsilon in (0.5, 1.0, 4.0)]
        assert each[0] > each[1] > each[2] > 0
        fewer = planned_error(make(domain, 4.0), domain, people=1000)
        assert fewer > each[2]
        errors[kind] = each
    assert (np.array(errors["window"]) < errors["laplace"]).all()


def test_what_is_not_worked_out_is_not_a_number():
    box = Box((0.0,) * 4, (1.0,) * 4)
    assert math.isnan(planned_error(Laplace.calibrate(box, 1.0), box))
    assert np.isnan(RandomizedResponse(3, 1.0).attenuation(WAVES)).all()

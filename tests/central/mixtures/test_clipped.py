"""Gaussians cut to [0, 1]: their moments against draws, and which of them has given ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.central.mixtures import clipped_moments, location_and_scale


@given(location=st.floats(-3, 4), scale=st.floats(0.05, 4))
def test_moments_are_those_of_quadrature(location, scale):
    z = np.linspace(-9, 9, 40_001)
    weights = np.exp(-z * z / 2)
    weights /= weights.sum()
    values = np.clip(location + scale * z, 0, 1)
    mean = weights @ values
    found = clipped_moments(np.array([location]), np.array([scale]))
    assert found[0][0] == pytest.approx(mean, abs=1e-4)
    assert found[1][0] == pytest.approx(weights @ (values - mean) ** 2, abs=1e-4)


@settings(max_examples=15)
@given(mean=st.floats(0.03, 0.97), share=st.floats(0.03, 0.93))
def test_moments_are_met(mean, share):
    variance = share * mean * (1 - mean)
    found = clipped_moments(*location_and_scale(np.array([mean]), np.array([variance])))
    assert found[0][0] == pytest.approx(mean, abs=0.004)
    assert found[1][0] == pytest.approx(variance, rel=0.07)


def test_shapes_are_kept_and_bounds_are_no_error():
    location, scale = location_and_scale(
        np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([[0, 1], [0, 9.0]])
    )
    assert location.shape == scale.shape == (2, 2)
    assert np.isfinite(location).all()
    assert (scale > 0).all()

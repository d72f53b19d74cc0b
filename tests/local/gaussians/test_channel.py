"""The smooth channel of candidates, against the mechanism's own likelihood."""

import numpy as np
import pytest
from scipy import special

from privot.local.gaussians import SmoothChannel
from privot.mechanisms.candidates.codebook import ClosestCandidates


@pytest.mark.parametrize("epsilon", [1.0, 5.0, 10.0])
def test_it_is_the_mechanisms_likelihood_but_for_its_shape(epsilon):
    mechanism = ClosestCandidates.for_dimension(500, epsilon)
    channel = SmoothChannel.of(mechanism, 0.02)
    u = np.linspace(-5, 5, 201)
    step = special.ndtr((u - channel.threshold) / channel.width)
    found = channel.outside + (channel.inside - channel.outside) * step
    expected = np.exp(mechanism.log_likelihood(u / np.sqrt(512)))
    assert np.abs(found - expected).max() < 0.05 * channel.inside
    assert channel.inside / channel.outside <= np.exp(epsilon) * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [1.0, 5.0, 10.0])
def test_the_mass_of_points_on_the_sphere_is_one(epsilon):
    channel = SmoothChannel.of(ClosestCandidates.for_dimension(500, epsilon), 0.02)
    lengths = np.array([0.5, 1.0, 1.5])
    masses = channel.tilt(lengths)
    assert masses[1] == pytest.approx(1, abs=0.06)
    assert (np.diff(masses) > 0).all()

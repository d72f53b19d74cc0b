"""The optimum: feasible, and no feasible density beats it."""

import math

import numpy as np
import pytest

from privot.core.errors import PrivotError
from studies.rivals.optimal_mollifier import minimax_floor, optimal_density

NODES = np.linspace(-4, 4, 801)
VOLUME = 0.01


def gaussian(mean, stddev=1.0):
    values = np.exp(-((NODES - mean) ** 2) / (2 * stddev**2))
    return values / (values.sum() * VOLUME)


def divergence(p, q):
    return float((p * np.log(p / q)).sum() * VOLUME)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_it_is_a_density_of_the_mollifier(epsilon):
    p, q0, floor = gaussian(0.8, 0.5), gaussian(0.0), math.exp(-epsilon / 2)
    q = optimal_density(p, q0, VOLUME, epsilon, floor)
    assert q.sum() * VOLUME == pytest.approx(1, abs=1e-11)
    assert (q >= floor * q0).all()
    assert (q <= math.exp(epsilon) * floor * q0).all()


def test_no_mixture_with_another_member_is_nearer():
    """KL is convex: a better member would already improve on the optimum in a small mixture."""
    p, q0, epsilon, floor = gaussian(0.8, 0.5), gaussian(0.0), 1.0, math.exp(-0.5)
    best = optimal_density(p, q0, VOLUME, epsilon, floor)
    for mean in np.linspace(-1, 2, 13):
        other = optimal_density(gaussian(mean, 0.7), q0, VOLUME, epsilon, floor)
        mixed = 0.99 * best + 0.01 * other
        assert divergence(p, mixed) >= divergence(p, best) - 1e-12


def test_with_enough_epsilon_it_is_the_target():
    p = gaussian(0.5)
    q = optimal_density(p, gaussian(0.0), VOLUME, 12.0, minimax_floor(12.0, 10.0))
    assert q == pytest.approx(p, rel=1e-9)


def test_the_minimax_floor_meets_the_worst_case():
    """p = c q₀ on a set of mass 1/c, 0 elsewhere: the clipped p needs no r at all."""
    epsilon, bound = 1.0, 2.0
    p, q0 = np.array([2.0, 0.0]), np.ones(2)
    floor = minimax_floor(epsilon, bound)
    q = optimal_density(p, q0, 0.5, epsilon, floor)
    assert q == pytest.approx([math.exp(epsilon) * floor, floor], rel=1e-9)


def test_refusals():
    with pytest.raises(PrivotError, match="epsilon is 0"):
        minimax_floor(0.0, 2.0)
    with pytest.raises(PrivotError, match=r"bound is 0\.5"):
        minimax_floor(1.0, 0.5)
    with pytest.raises(PrivotError, match=r"floor is 1\.5"):
        optimal_density(gaussian(0.5), gaussian(0.0), VOLUME, 1.0, 1.5)

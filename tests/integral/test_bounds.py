"""Bounds of boosting beside quadrature: they hold where their conditions do, and break where not."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from privot.core.errors import PrivotError
from privot.integral import BoostSettings, ClippedRatioSettings, boost, clip_ratio
from privot.integral.boosting import coefficients
from privot.integral.learners import NetworkSettings
from privot.integral.references import StandardNormal
from privot.integral.tilts import (
    BOUND,
    Edges,
    fat_enough,
    gain,
    gain_limit,
    least_gain,
    least_mass,
    published_gain,
    total_gain,
)

X = np.linspace(-8, 8, 16_001)
CELL = X[1] - X[0]
P = 0.6 * norm.pdf(X) + 0.4 * norm.pdf(X, 2.5, 0.2)
Q0 = norm.pdf(X)
P, Q0 = P / (P.sum() * CELL), Q0 / (Q0.sum() * CELL)


def mean(density, values):
    return float((density * values).sum() * CELL)


def edges_of(q, c):
    return Edges(mean(P, c) / BOUND, -mean(q, c) / BOUND)


def tilted(q, exponent):
    return q * np.exp(exponent) / mean(q, np.exp(exponent))


def gained(q, after):
    """KL(P‖q) − KL(P‖after)."""
    return mean(P, np.log(after) - np.log(q))


def good(q, steep=1.0):
    """A classifier within ±log 2 that knows both densities."""
    return BOUND * np.tanh(steep * (np.log(P) - np.log(q)))


@pytest.mark.parametrize("theta", [0.05, 0.5, 1.0, 1.5, 4.0])
@pytest.mark.parametrize("steep", [0.05, 1.0, 50.0])
def test_a_round_gains_what_is_proven(theta, steep):
    c = good(Q0, steep)
    edges, after = edges_of(Q0, c), tilted(Q0, theta * c)
    assert gain(theta, edges) <= gained(Q0, after) + 1e-9
    if theta <= 1:
        assert published_gain(theta, edges) <= gain(theta, edges) + 1e-12


def test_a_classifier_of_two_values_gains_no_more_than_is_proven():
    """No better bound knows nothing but the edges."""
    c = np.where(P > Q0, BOUND, -BOUND)
    edges = edges_of(Q0, c)
    for theta in (0.3, 2.0):
        found = gained(Q0, tilted(Q0, theta * c))
        assert gain(theta, edges) == pytest.approx(found, abs=1e-9)
        if theta < 1:
            assert found < theta * BOUND * (edges.gamma_p + edges.gamma_q), "so (11) needs Γ"


def test_a_classifier_that_is_not_bounded_breaks_it():
    """As in the published code: here up to 8 log 2, and edges are cut to what is allowed."""
    c = np.where(X > 1.5, 8 * BOUND, -BOUND)
    raw = mean(P, c) / BOUND, -mean(Q0, c) / BOUND
    edges = Edges(*np.clip(raw, -1, 1))
    assert gain(1.0, edges) > gained(Q0, tilted(Q0, c)) + 0.1


def test_the_published_bound_breaks_beyond_one():
    """Where θ > 1 the high regime's formula promises more than a classifier of two values gains."""
    theta, edges = 3.0, Edges(0.6, 0.5)
    formula = theta * (BOUND * 0.6 + math.log(4 / 3.5))
    assert formula > gain(theta, edges) + 1.0
    with pytest.raises(PrivotError, match="theta 3.0"):
        published_gain(theta, edges)


def test_edges_relative_to_the_own_maximum_break_it():
    """c = −0.1 log 2 under Q, its own maximum: a round gains θ · 0.1 log 2 there, not θ log 2."""
    c = np.where(X < 0, -0.1 * BOUND, 0.1 * BOUND)
    q = np.where(X < 0, Q0, 0.0) / mean(Q0, X < 0)
    p_gain = 0.5 * mean(P, c)
    own = Edges(mean(P, c) / (0.1 * BOUND), -mean(q, c) / (0.1 * BOUND))
    assert own.gamma_q == pytest.approx(1)
    found = p_gain - math.log(mean(q, np.exp(0.5 * c)))
    assert published_gain(0.5, edges_of(q, c)) <= found < 0.5 * BOUND + p_gain - 0.2


def rounds_of(epsilon, kind, steep=1.0, rounds=3):
    thetas, q, edges = coefficients(epsilon, rounds, kind), Q0, []
    for theta in thetas:
        c = good(q, steep)
        edges.append(edges_of(q, c))
        q = tilted(q, theta * c)
    return q, thetas, edges


def least_of(edges):
    return Edges(min(e.gamma_p for e in edges), min(e.gamma_q for e in edges))


@pytest.mark.parametrize("epsilon", [0.2, 2.0, 12.0])
def test_all_rounds(epsilon):
    q, thetas, edges = rounds_of(epsilon, "published", steep=5.0)
    assert 0 < least_gain(thetas, least_of(edges)) <= total_gain(thetas, edges)
    assert total_gain(thetas, edges) <= gained(Q0, q) <= epsilon / 2
    q, thetas, edges = rounds_of(epsilon, "exact", steep=5.0)
    assert total_gain(thetas, edges) <= gained(Q0, q) <= epsilon / 2


def test_perfect_edges_reach_the_limit():
    assert least_gain(coefficients(1.0, 40, "published"), Edges(1, 1)) == pytest.approx(0.5)
    share = 1 - coefficients(1.0, 3, "published")[-1]
    published = least_gain(coefficients(1.0, 3, "published"), Edges(1, 1))
    assert published == pytest.approx(0.5 * share)
    assert total_gain(coefficients(1.0, 3), [Edges(1, 1)] * 3) == pytest.approx(0.5)


def test_the_limit_is_that_of_the_density():
    """ε/2 boosted, (1 − floor_share) ε clipped; the truth itself is beyond it."""
    records = np.random.default_rng(0).normal(1.5, 0.3, (800, 1))
    quick = NetworkSettings(hidden=(8,), steps=20, batch_size=64)
    boosted = boost(records, StandardNormal(1), 2.0, BoostSettings(rounds=1, network=quick))
    clipped = clip_ratio(records, StandardNormal(1), 2.0, ClippedRatioSettings(floor_share=0.25))
    assert gain_limit(boosted) == 1.0
    assert gain_limit(clipped) == pytest.approx(1.5, abs=1e-6)
    for density in (boosted, clipped):
        logs = density.log_tilt(X[:, None])
        q = tilted(Q0, logs)
        assert np.log(q / Q0).max() <= gain_limit(density) + 1e-3
    assert gained(Q0, P) > 0.5


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(
    ("inside", "fat"),
    [(X < 1.5, True), (np.abs(X) < 1.5, True), (X > 1.5, False), (X > 2.9, False)],
)
def test_mass_of_a_set(epsilon, inside, fat):
    """Where the reference is lucky it is sure; of a mode that the reference has not, it is not."""
    q, thetas, edges = rounds_of(epsilon, "published", steep=5.0)
    mass, far = mean(P, inside), mean(P, np.where(inside, np.log(P / Q0), 0.0))
    proven = least_mass(mass, far, total_gain(thetas, edges), epsilon / 2)
    assert proven <= mean(q, inside) + 1e-12
    lost = 0.05
    assert (mass >= fat_enough(epsilon, thetas, least_of(edges), far, lost)) is fat
    assert (mean(q, inside) >= (1 - lost) * mass) is fat


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Edges(1.2, 0.0), "gamma_p is not in"),
        (lambda: Edges(0.0, math.nan), "gamma_q is not in"),
        (lambda: gain(0.0, Edges(1, 1)), "theta 0.0"),
        (lambda: least_gain([0.5], Edges(1, 0.3)), "high boosting regime"),
        (lambda: least_gain([0.5, 1.5], Edges(1, 1)), "theta 1.5"),
        (lambda: least_mass(0.0, 0.0, 0.0, 1.0), "mass 0.0"),
        (lambda: least_mass(0.5, 0.0, 2.0, 1.0), "more than the limit"),
        (lambda: fat_enough(1.0, [0.5], Edges(1, 1), 0.0, 2.0), "lost 2.0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(PrivotError, match=message):
        call()


def test_edges_print_nothing():
    assert "0.25" not in repr(Edges(0.25, 0.25)) + str([Edges(0.25, 0.25)])

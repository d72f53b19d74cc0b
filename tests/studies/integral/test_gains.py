"""Bounds of boosting beside quadrature: they hold where their conditions do, and break where not."""

import math

import numpy as np
import pytest

from integral.boosted import Q0, P, X, edges_of, gained, good, mean, rounds_of, tilted
from privot.core.errors import PrivotError
from privot.integral import BoostSettings, ClippedRatioSettings, boost, clip_ratio
from privot.integral.learners import BOUND, NetworkSettings
from privot.integral.references import StandardNormal
from studies.integral.published_gains import (
    Edges,
    gain,
    gain_limit,
    paper_coefficients,
    total_gain,
)


@pytest.mark.parametrize("theta", [0.05, 0.5, 1.0, 1.5, 4.0])
@pytest.mark.parametrize("steep", [0.05, 1.0, 50.0])
def test_a_round_gains_what_is_proven(theta, steep):
    c = good(Q0, steep)
    edges, after = edges_of(Q0, c), tilted(Q0, theta * c)
    assert gain(theta, edges) <= gained(Q0, after) + 1e-9


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


@pytest.mark.parametrize("epsilon", [0.2, 2.0, 12.0])
@pytest.mark.parametrize("kind", ["published", "exact"])
def test_all_rounds(epsilon, kind):
    q, thetas, edges = rounds_of(epsilon, kind, steep=5.0)
    assert 0 < total_gain(thetas, edges) <= gained(Q0, q) <= epsilon / 2


def test_perfect_edges_reach_the_limit():
    assert total_gain(paper_coefficients(1.0, 3), [Edges(1, 1)] * 3) == pytest.approx(0.5)


def test_the_limit_is_that_of_the_density():
    """(1 − floor_share) ε, ε/4 + ε/4 without a normalizer; the truth itself is beyond it."""
    records = np.random.default_rng(0).normal(1.5, 0.3, (800, 1))
    quick = NetworkSettings(hidden=(8,), steps=20, batch_size=64)
    unknown = BoostSettings(rounds=1, network=quick, normalizer="none")
    boosted = boost(records, StandardNormal(1), 2.0, unknown)
    clipped = clip_ratio(records, StandardNormal(1), 2.0, ClippedRatioSettings(floor_share=0.25))
    assert gain_limit(boosted) == 1.0
    assert gain_limit(clipped) == pytest.approx(1.5, abs=1e-6)
    for density in (boosted, clipped):
        logs = density.log_tilt(X[:, None])
        q = tilted(Q0, logs)
        assert np.log(q / Q0).max() <= gain_limit(density) + 1e-3
    assert gained(Q0, P) > 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Edges(1.2, 0.0), "gamma_p is not in"),
        (lambda: Edges(0.0, math.nan), "gamma_q is not in"),
        (lambda: gain(0.0, Edges(1, 1)), "theta 0.0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(PrivotError, match=message):
        call()


def test_edges_print_nothing():
    assert "0.25" not in repr(Edges(0.25, 0.25)) + str([Edges(0.25, 0.25)])

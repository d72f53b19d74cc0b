"""Published bounds of boosting beside quadrature, and beside the bound by edges."""

import math

import numpy as np
import pytest

from integral.boosted import (
    Q0,
    P,
    X,
    edges_of,
    good,
    least_of,
    mean,
    rounds_of,
)
from privot.core.errors import PrivotError
from privot.integral.learners import BOUND
from studies.integral.published_gains import (
    Edges,
    fat_enough,
    gain,
    is_high,
    least_gain,
    least_mass,
    paper_coefficients,
    published_gain,
    total_gain,
)
from studies.rivals.optimal_mollifier import optimal_density


@pytest.mark.parametrize("theta", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("steep", [0.05, 1.0, 50.0])
def test_a_round_gains_no_less_by_its_edges(theta, steep):
    edges = edges_of(Q0, good(Q0, steep))
    assert published_gain(theta, edges) <= gain(theta, edges) + 1e-12


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


@pytest.mark.parametrize("epsilon", [0.2, 2.0, 12.0])
def test_all_rounds(epsilon):
    _, thetas, edges = rounds_of(epsilon, "published", steep=5.0)
    assert 0 < least_gain(thetas, least_of(edges)) <= total_gain(thetas, edges)


def test_perfect_edges_reach_the_limit():
    assert least_gain(paper_coefficients(1.0, 40, "published"), Edges(1, 1)) == pytest.approx(0.5)
    share = 1 - paper_coefficients(1.0, 3, "published")[-1]
    published = least_gain(paper_coefficients(1.0, 3, "published"), Edges(1, 1))
    assert published == pytest.approx(0.5 * share)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("share", [0.25, 0.5])
def test_equation_10(epsilon, share):
    """No density of the mollifier gains more than its ceiling, and the best one all but reaches it.

    The share ½ is the paper's window [e^(−ε/2), e^(ε/2)]; truths are points of ever less reference.
    """
    limit = (1 - share) * epsilon
    for mass in (0.3, 1e-2, 1e-9):
        q0, p = np.array([1 - mass, mass]), np.array([1e-12, 1 - 1e-12])
        best = optimal_density(p, q0, 1.0, epsilon, math.exp(-share * epsilon))
        found = float(p @ np.log(best / q0))
        assert found <= limit + 1e-9
    assert found > limit - 1e-3


@pytest.mark.parametrize("kind", ["published", "exact"])
def test_equation_11(kind):
    """All high rounds on six points, with random truths and classifiers, gain what (11) says or more.

    Where all classifiers are perfect it is ε/2, but for what the published coefficients leave.
    """
    rng, rounds, least, tight = np.random.default_rng(0), 3, np.inf, np.inf
    for _ in range(2000):
        epsilon = rng.uniform(0.1, 5.0)
        p, start = rng.dirichlet(np.full(6, 0.2)), rng.dirichlet(np.full(6, 0.5)) + 1e-12
        q, edges, thetas = start / start.sum(), [], paper_coefficients(epsilon, rounds, kind)
        q0 = q
        for theta in thetas:
            c = np.clip(np.log((p + 1e-12) / q) * rng.uniform(0.5, 5.0), -BOUND, BOUND)
            edges.append(Edges(float(p @ c) / BOUND, -float(q @ c) / BOUND))
            q = q * np.exp(theta * c) / (q @ np.exp(theta * c))
        if all(map(is_high, edges)) and max(thetas) <= 1:
            found = float(p @ np.log(q / q0))
            least = min(least, found - least_gain(thetas, least_of(edges)))
            tight = min(tight, 1 - least_gain(thetas, least_of(edges)) / found)
            g = least_of(edges).gamma_p + math.log(4 / (5 - 3 * least_of(edges).gamma_q)) / BOUND
            spent = 1 - thetas[-1] if kind == "published" else 1.0
            formula = epsilon / 2 * spent * g / 2
            assert least_gain(thetas, least_of(edges)) == pytest.approx(formula)
    assert -1e-9 <= least < 0.1, "it holds, and some cases were near"
    assert tight < 0.3


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

"""Loss distributions: exact divergences from below, rivals that must stay below, oracles at d = 1."""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as oracle
from scipy import special

from privot.privacy import gaussian_delta
from privot.privacy.slice_losses import LossDistribution, SampledPair, composed_epsilon
from privot.privacy.slice_sensitivity import ProjectedLength, length_law

ONE = np.array([1.0])


def delta_of(loss, epsilon):
    """δ(ε) of one step, from the definition."""
    gap = np.maximum(-np.expm1(epsilon - loss.losses()), 0.0)
    return loss.infinite + loss.masses @ gap


def composed(*losses):
    """The brute-force composition: plain convolution."""
    total = losses[0]
    for loss in losses[1:]:
        total = LossDistribution(
            total.step,
            total.first + loss.first,
            np.convolve(total.masses, loss.masses),
            1 - (1 - total.infinite) * (1 - loss.infinite),
        )
    return total


def exact_delta(shift, rate, epsilon, swapped):
    """H_{e^ε} of ((1−q)N(0,1) + qN(m,1), N(0,1)) or its swap: the best event is a half-line."""
    level = -epsilon if swapped else epsilon
    ratio = 1 + np.expm1(level) / rate
    x = np.log(ratio) / shift + shift / 2 if ratio > 0 else -np.inf
    side = 1 if swapped else -1
    under_q = special.ndtr(side * x)
    under_r = (1 - rate) * under_q + rate * special.ndtr(side * (x - shift))
    first, second = (under_q, under_r) if swapped else (under_r, under_q)
    return first - np.exp(epsilon) * second


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("shift", "rate"), [(1.5, 0.1), (0.7, 0.6), (3.0, 0.01)])
def test_one_sided_lies_above_and_near_the_exact_divergence(shift, rate, swapped):
    loss = SampledPair(np.array([shift]), ONE, rate).losses(1e-3, 1e-14)
    loss = loss.swapped() if swapped else loss
    for epsilon in (-0.5, -0.003, 0.0, 0.0007, 0.01, 0.05, 0.3, 1.0):
        true = exact_delta(shift, rate, epsilon, swapped)
        got = delta_of(loss, epsilon)
        assert true - 1e-14 <= got <= true + 1e-6
    # Power: a shift 10 % larger has larger divergences.
    assert exact_delta(1.1 * shift, rate, 0.005, swapped) > delta_of(loss, 0.005)


def test_symmetrized_profile_is_the_larger_of_both_orders():
    shift, rate = 1.3, 0.2
    loss = SampledPair(np.array([shift]), ONE, rate).symmetrized_losses(1e-3, 1e-14)
    for epsilon in (-0.4, -0.1, -0.01, 0.0, 0.004, 0.1, 0.4):
        both = [exact_delta(shift, rate, epsilon, swapped) for swapped in (False, True)]
        assert max(both) - 1e-14 <= delta_of(loss, epsilon) <= max(both) + 1e-6
    assert loss.masses.sum() + loss.infinite == pytest.approx(1.0, abs=1e-13)
    # The same in both directions.
    mirrored = loss.swapped()
    assert np.allclose(mirrored.masses, loss.masses, atol=1e-15)
    at_zero = loss.masses[-loss.first]
    assert at_zero == pytest.approx((1 - rate) * (1 - 2 * special.ndtr(-shift / 2)), abs=2e-3)


def test_symmetrized_exceeds_every_mixture_of_directions():
    """Adaptively, a neighbor may look like (R, Q) in one step and like (Q, R) in another."""
    shift, rate, steps = np.array([2.0]), 0.3, 4
    forth = SampledPair(shift, ONE, rate).losses(5e-3, 1e-12)
    back = forth.swapped()
    bound = composed(*[SampledPair(shift, ONE, rate).symmetrized_losses(5e-3, 1e-12)] * steps)
    mixtures = [composed(*[forth] * m, *[back] * (steps - m)) for m in range(steps + 1)]
    for epsilon in np.linspace(0, 2.5, 26):
        deltas = [delta_of(mixture, epsilon) for mixture in mixtures]
        assert max(deltas) <= delta_of(bound, epsilon) + 1e-12
        # Not by so much that a bound twice as large would pass for it.
        assert delta_of(bound, epsilon) <= 2 * max(deltas) + 1e-6


@pytest.mark.parametrize("other", [-1.0, -0.5, 0.0, 0.4, 1.0])
def test_a_real_batch_without_replacement_stays_below(other):
    """Rows x = 1 or x′ = −1 in the slot, or another record in [−1, 1]: three Gaussians on a line."""
    rate, stddev = 0.25, 1.1
    loss = SampledPair(np.array([2.0 / stddev]), ONE, rate).symmetrized_losses(1e-3, 1e-14)
    x = np.linspace(-14, 14, 40_001)

    def density(at):
        return np.exp(-((x - at) ** 2) / (2 * stddev**2)) / np.sqrt(2 * np.pi) / stddev

    first = (1 - rate) * density(other) + rate * density(1.0)
    second = (1 - rate) * density(other) + rate * density(-1.0)
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        for a, b in ((first, second), (second, first)):
            true = np.maximum(a - np.exp(epsilon) * b, 0).sum() * (x[1] - x[0])
            assert true <= delta_of(loss, epsilon) + 5e-8
    # Attained where the other record equals x or x′: the bound is tight.
    if abs(other) == 1:
        true = np.abs(first - second).sum() * (x[1] - x[0]) / 2
        assert true >= delta_of(loss, 0.0) - 1e-6


@pytest.mark.parametrize("shift", [0.3, 1.0, 2.5])
def test_without_sampling_it_is_the_gaussian_mechanism(shift):
    for steps in (1, 5):
        loss = SampledPair(np.array([shift]), ONE, 1.0).symmetrized_losses(shift / 400, 1e-14)
        epsilon = composed_epsilon(loss, steps, 1e-6)
        exact = gaussian_delta(1.0, shift * steps**0.5, epsilon)
        assert exact <= 1e-6
        assert gaussian_delta(1.0, shift * steps**0.5, epsilon * 0.998) > 1e-6


@pytest.mark.parametrize(("stddev", "rate", "steps"), [(0.9, 0.01, 1000), (2.0, 0.2, 60)])
def test_padded_poisson_agrees_with_dp_accounting(stddev, rate, steps):
    theirs = oracle.from_gaussian_mechanism(
        stddev, sampling_prob=rate, value_discretization_interval=1e-3
    ).self_compose(steps)
    loss = SampledPair(np.array([1 / stddev]), ONE, rate).losses(5e-4, 1e-12)
    ours = max(composed_epsilon(pair, steps, 1e-6) for pair in (loss, loss.swapped()))
    assert ours == pytest.approx(theirs.get_epsilon_for_delta(1e-6), rel=2e-3)


@pytest.mark.parametrize("delta", [1e-3, 1e-8, 1e-25])
def test_fourier_composition_is_the_convolution(delta):
    loss = SampledPair(np.array([1.0, 1.4]), np.array([0.7, 0.3]), 0.3).symmetrized_losses(
        0.02, 1e-32
    )
    epsilon = composed_epsilon(loss, 6, delta)
    brute = composed(*[loss] * 6)
    assert delta_of(brute, epsilon) <= delta
    assert delta_of(brute, epsilon * (1 - 1e-6)) > delta


def test_a_mixture_over_lengths_is_above_the_exact_average():
    length = ProjectedLength(30, 5, 1.0)
    values, weights = length_law(length)
    loss = SampledPair(np.sqrt(values) / 0.3, weights, 1.0).symmetrized_losses(2e-3, 1e-13)
    draws = np.random.default_rng(5).beta(0.5, 14.5, size=(20_000, 5)).sum(axis=1)
    for epsilon in (0.5, 2.0):
        m = np.sqrt(draws) / 0.3
        each = special.ndtr(m / 2 - epsilon / m) - np.exp(epsilon) * special.ndtr(
            -m / 2 - epsilon / m
        )
        error = each.std() / len(each) ** 0.5
        got = delta_of(loss, epsilon)
        assert each.mean() - 4 * error <= got <= each.mean() * 1.01 + 4 * error
        # Power: averaging the length first, as if it were constant, is noticed.
        constant = gaussian_delta(0.3, float(draws.mean() ** 0.5), epsilon)
        assert abs(constant - each.mean()) > 4 * error


def test_finer_grids_only_lower_the_result_a_little():
    pair = SampledPair(np.array([1.4, 1.6]), np.array([0.6, 0.4]), 0.002)
    epsilons = [
        composed_epsilon(pair.symmetrized_losses(step, 1e-14), 50_000, 1e-5)
        for step in (8e-4, 4e-4, 2e-4)
    ]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[0] < epsilons[2] * 1.003


def test_what_cannot_be_composed_is_infinite():
    loss = SampledPair(np.array([1.0]), ONE, 1.0).symmetrized_losses(0.05, 1e-3)
    assert composed_epsilon(loss, 10, 1e-6) == np.inf

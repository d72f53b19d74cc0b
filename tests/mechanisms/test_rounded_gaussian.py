"""The sampler's law on fine grids, and the filter: what floats cannot decide, they do not."""

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from laws.mechanism import FALSE_ALARM, chi_square
from privot.errors import PrivotError
from privot.mechanisms import rounded_gaussian
from privot.mechanisms.rounded_gaussian import (
    draw_rounded_gaussian,
    exact_pair,
    sample_rounded_gaussian,
)

FINE = 2.0**19.5


def p_value(draws, ratio, stddev):
    edges = np.unique(np.rint(np.linspace(-4.5, 4.5, min(181, len(draws) // 200)) * ratio))
    below = ndtr((edges + 0.5) / stddev)
    counts = np.diff(np.searchsorted(np.sort(draws), edges, side="right"), prepend=0)
    counts = np.append(counts, len(draws) - counts.sum())
    return chi_square(counts, np.diff(below, prepend=0.0, append=1.0))


@pytest.mark.parametrize("ratio", [0.4, 3.3, 1000.7, FINE])
def test_law_with_power_at_one_percent(ratio):
    draws = sample_rounded_gaussian(10_000_000, ratio)
    assert p_value(draws, ratio, ratio) > FALSE_ALARM
    assert p_value(draws, ratio, ratio * 1.01) < FALSE_ALARM
    assert p_value(draws, ratio, ratio * 0.99) < FALSE_ALARM


@pytest.mark.parametrize("ratio", [0.4, 3.3, FINE])
def test_exact_path_has_the_same_law(ratio, monkeypatch):
    monkeypatch.setattr(rounded_gaussian, "LOG_ERROR_OK", False)
    assert p_value(sample_rounded_gaussian(10_000, ratio), ratio, ratio) > FALSE_ALARM
    few = np.array([draw_rounded_gaussian(1, ratio)[0] for _ in range(2_000)])
    assert p_value(few, ratio, ratio) > FALSE_ALARM


def test_the_two_values_of_a_pair_are_independent():
    left, right = sample_rounded_gaussian((2, 2**14 // 2), FINE) / FINE
    pairs = np.concatenate([rounded_gaussian._draw_pairs(2**14, FINE) for _ in range(60)], axis=1)
    first, second = pairs / FINE
    limit = 6 / np.sqrt(first.size)
    assert abs((first * second).mean()) < limit
    assert abs(((first**2 - 1) * (second**2 - 1)).mean()) < 2 * limit
    assert abs((left * right).mean()) < 6 / np.sqrt(left.size)


def test_low_bits_are_uniform():
    counts = np.bincount(sample_rounded_gaussian(1_000_000, FINE) % 32, minlength=32)
    assert chi_square(counts, np.full(32, 1 / 32)) > FALSE_ALARM


def polar(u, v, ratio):
    square = u * u + v * v
    return ratio * mpmath.sqrt(-2 * mpmath.log(square) / square) * u


def test_exact_pair_against_mpmath():
    rng = np.random.default_rng(3)
    accepted = 0
    for first, second in rng.integers(-(2**63), 2**63, (200, 2)).tolist():
        pair = exact_pair(first, second, FINE)
        with mpmath.workdps(60):
            u, v = (mpmath.mpf(w + mpmath.mpf("0.5")) / 2**63 for w in (first, second))
            if u * u + v * v >= 1:
                assert pair is None
                continue
            accepted += 1
            exact = polar(u, v, FINE), polar(v, u, FINE)
        assert all(abs(k - z) < 0.5001 for k, z in zip(pair, exact, strict=True))
    assert accepted > 100


@pytest.mark.parametrize("ratio", [1.5, 777.7, FINE, 2.0**26])
@pytest.mark.parametrize("count", [1, 64])
def test_undecidable_words_always_take_the_exact_path(ratio, count, monkeypatch):
    """Words of U at which ratio·Z crosses a half-integer, found by bisection."""
    rng = np.random.default_rng(4)
    asked = []

    def spy(first, second, ratio):
        asked.append((first, second))
        return 1, 1

    monkeypatch.setattr(rounded_gaussian, "exact_pair", spy)
    for second in rng.integers(-(2**62), 2**62, 12).tolist():
        low, high = 2**60, 2**62  # ratio·Z increases with U here or decreases: bisection follows
        with mpmath.workdps(50):
            v = mpmath.mpf(second) / 2**63
            ends = [polar(mpmath.mpf(w) / 2**63, v, ratio) for w in (low, high)]
            target = mpmath.floor(sum(ends) / 2) + 0.5
            if not min(ends) < target < max(ends):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                above = polar(mpmath.mpf(middle) / 2**63, v, ratio) > target
                low, high = (low, middle) if above == (ends[1] > ends[0]) else (middle, high)
        words = np.repeat(np.array([low, second], np.int64), 200).view(np.uint64)
        monkeypatch.setattr(
            rounded_gaussian,
            "random_words",
            lambda n, w=words: w.reshape(2, -1)[:, : n // 2].ravel(),
        )
        stock = [low + 2**63, second + 2**63] * 4
        monkeypatch.setattr(rounded_gaussian, "random_word", lambda s=stock: s.pop(0))
        sample_rounded_gaussian(count, ratio)
        assert set(asked) == {(low, second)}
        asked.clear()


@pytest.mark.parametrize(
    "words", [(0, 0), (1, -1), (2**52, 5), (2**63 - 1, 0), (-(2**63), 0), (2**63 - 1, 2**31)]
)
def test_pairs_at_the_edges_are_decided(words):
    for _ in range(10):
        pair = exact_pair(*words, 100.0)
        assert pair is None or all(abs(k) < 100 * 14 for k in pair)


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf"), 2.0**41])
def test_ratios_out_of_range_are_refused(ratio):
    for size in (1, 100):
        with pytest.raises(PrivotError, match="ratio"):
            sample_rounded_gaussian(size, ratio)

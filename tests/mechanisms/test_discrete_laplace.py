"""The sampler's law on fine grids, and the filter: what floats cannot decide, they do not."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.mechanism import FALSE_ALARM, chi_square
from privot.errors import PrivotError
from privot.mechanisms import discrete_laplace
from privot.mechanisms.discrete_laplace import (
    draw_discrete_laplace,
    exact_geometric,
    sample_discrete_laplace,
)

FINE = 2.0**19.5


def p_value(draws, ratio, scale):
    """Chi-square over bins of the exact distribution function P(k ≤ j) of the integers."""
    edges = np.unique(np.rint(np.linspace(-8, 8, min(161, len(draws) // 200)) * ratio))
    q = np.exp(-1 / scale)
    tail = np.exp(-np.abs(edges) / scale) / (1 + q)
    below = np.where(edges < 0, tail, 1 - tail * q)
    counts = np.diff(np.searchsorted(np.sort(draws), edges, side="right"), prepend=0)
    counts = np.append(counts, len(draws) - counts.sum())
    return chi_square(counts, np.diff(below, prepend=0.0, append=1.0))


@pytest.mark.parametrize("ratio", [0.4, 3.3, 1000.7, FINE])
def test_law_with_power_at_one_percent(ratio):
    draws = sample_discrete_laplace(10_000_000, ratio)
    assert p_value(draws, ratio, ratio) > FALSE_ALARM
    assert p_value(draws, ratio, ratio * 1.01) < FALSE_ALARM
    assert p_value(draws, ratio, ratio * 0.99) < FALSE_ALARM


@pytest.mark.parametrize("ratio", [0.4, 3.3, FINE])
def test_exact_path_has_the_same_law(ratio, monkeypatch):
    monkeypatch.setattr(discrete_laplace, "LOG_ERROR_OK", False)
    assert p_value(sample_discrete_laplace(20_000, ratio), ratio, ratio) > FALSE_ALARM
    few = np.array([draw_discrete_laplace(1, ratio)[0] for _ in range(5_000)])
    assert p_value(few, ratio, ratio) > FALSE_ALARM


def test_low_bits_are_uniform():
    counts = np.bincount(sample_discrete_laplace(1_000_000, FINE) % 32, minlength=32)
    assert chi_square(counts, np.full(32, 1 / 32)) > FALSE_ALARM


@given(prefix=st.integers(0, 2**63 - 1), ratio=st.floats(0.01, 2.0**30))
def test_exact_geometric_against_mpmath(prefix, ratio):
    with mpmath.workdps(60):
        value = [-ratio * mpmath.log(mpmath.mpf(prefix + end) / 2**63) for end in (1, 0.0001)]
        low, high = (int(mpmath.floor(v)) for v in value)
    assert low <= exact_geometric(prefix, ratio) <= high + (0 if prefix else 10**12)


def boundary_words(ratio, magnitudes):
    """Words whose 63-bit prefix straddles U = e^(−k/t), where the floor jumps."""
    with mpmath.workdps(60):
        return [int(mpmath.floor(mpmath.exp(-mpmath.mpf(k) / ratio) * 2**63)) for k in magnitudes]


@pytest.mark.parametrize("ratio", [1.5, 777.7, FINE, 2.0**26])
@pytest.mark.parametrize("count", [1, 64])
def test_undecidable_words_always_take_the_exact_path(ratio, count, monkeypatch):
    magnitudes = np.unique(np.rint(np.geomspace(1, 12, 64) * ratio)).astype(int).tolist()
    asked = []

    def spy(prefix, ratio):
        asked.append(prefix)
        return 1

    monkeypatch.setattr(discrete_laplace, "exact_geometric", spy)
    for prefix in boundary_words(ratio, magnitudes):
        for near in (prefix - 1, prefix, prefix + 1):
            words = np.full(count, near, np.uint64)
            monkeypatch.setattr(discrete_laplace, "random_words", lambda n, out, w=words: w[:n])
            monkeypatch.setattr(discrete_laplace, "random_word", lambda w=near: w)
            sample_discrete_laplace(count, ratio)
            assert asked == [near] * count
            asked.clear()


@pytest.mark.parametrize("prefix", [0, 1, 2**20, 2**43, 2**44 - 1])
@pytest.mark.parametrize("count", [1, 64])
def test_short_prefixes_always_take_the_exact_path(prefix, count, monkeypatch):
    """So few bits were drawn that the next ones would move the logarithm by more than the margin."""
    asked = []
    monkeypatch.setattr(discrete_laplace, "exact_geometric", lambda p, r: asked.append(p) or 1)
    words = np.full(count, prefix, np.uint64)
    monkeypatch.setattr(discrete_laplace, "random_words", lambda n, out: words[:n])
    monkeypatch.setattr(discrete_laplace, "random_word", lambda: prefix)
    sample_discrete_laplace(count, 1.3)
    assert asked == [prefix] * count


@given(words=st.lists(st.integers(2**44, 2**63 - 1), min_size=20, max_size=60))
def test_fast_decisions_hold_for_every_continuation(words):
    """Where the exact path is not asked, both ends of the cell have the same floor."""
    exact = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discrete_laplace, "exact_geometric", lambda p, r: exact.append(p) or 1)
        patch.setattr(discrete_laplace, "random_words", lambda n, out: np.array(words, np.uint64))
        drawn = sample_discrete_laplace(len(words), FINE)
    for word, magnitude in zip(words, drawn.tolist(), strict=True):
        if word not in exact:
            with mpmath.workdps(60):
                ends = [-FINE * mpmath.log(mpmath.mpf(word + e) / 2**63) for e in (0, 1)]
            assert [int(mpmath.floor(end)) for end in ends] == [magnitude, magnitude]


@pytest.mark.parametrize("prefix", [0, 1, 2**20, 2**44 - 1])
def test_tails_reach_beyond_63_bits(prefix):
    """A fixed number of bits would bound the noise, and bounded noise is not pure DP."""
    draws = {exact_geometric(prefix, 100.0) for _ in range(20)}
    assert min(draws) >= int(-100 * np.log((prefix + 1) * 2.0**-63))
    if prefix == 0:
        assert max(draws) > 100 * 63 * np.log(2)


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf"), 2.0**41])
def test_ratios_out_of_range_are_refused(ratio):
    for size in (1, 100):
        with pytest.raises(PrivotError, match="ratio"):
            sample_discrete_laplace(size, ratio)

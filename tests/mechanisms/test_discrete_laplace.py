"""The samplers' laws on fine grids, and the filter: what floats cannot decide, they do not."""

from decimal import Decimal

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.mechanism import FALSE_ALARM, chi_square, has_law_and_no_other
from privot.core.errors import PrivotError
from privot.mechanisms import samplers
from privot.mechanisms.laplace import (
    enclose,
    sample_discrete_laplace,
)
from privot.mechanisms.samplers import directed_contexts, round_with_more_bits, take_buffered

FINE = 2.0**19.5


def has_the_law(draw, ratio, off):
    """Whether draw(n) has the law of `ratio`, over bins of the exact distribution function P(k ≤ j).

    So many are drawn that noise which is wrong by a share `off` is told apart.
    """
    edges = np.unique(np.rint(np.linspace(-8, 8, 161 if off < 0.05 else 41) * ratio))

    def law(scale):
        q = np.exp(-1 / scale)
        tail = np.exp(-np.abs(edges) / scale) / (1 + q)
        below = np.where(edges < 0, tail, 1 - tail * q)
        return np.diff(below, prepend=0.0, append=1.0)

    def counted(draws):
        below = np.searchsorted(np.sort(draws), edges, side="right")
        return np.diff(below, prepend=0, append=len(draws))

    wrong = law(ratio * (1 + off)), law(ratio * (1 - off))
    return has_law_and_no_other(draw, counted, law(ratio), *wrong)


@pytest.mark.parametrize("ratio", [0.4, 3.3, 1000.7, FINE])
def test_law_with_power_at_one_percent(ratio):
    assert has_the_law(lambda n: sample_discrete_laplace(n, ratio), ratio, 0.01)


@pytest.mark.parametrize("ratio", [0.4, 3.3, FINE])
def test_exact_path_has_the_same_law(ratio, monkeypatch):
    """Noise that is 25 % off is missed once in a billion runs; five statistics at 1e-7 each."""
    monkeypatch.setattr(samplers, "LOG_ERROR_OK", False)
    assert has_the_law(lambda n: sample_discrete_laplace(n, ratio), ratio, 0.25)


@pytest.mark.parametrize("ratio", [0.4, 3.3, FINE])
def test_single_draws_have_the_same_law(ratio):
    def draw(count):
        return np.array([take_buffered(1, sample_discrete_laplace, ratio)[0] for _ in range(count)])

    assert has_the_law(draw, ratio, 0.1)


def test_low_bits_are_uniform():
    counts = np.bincount(sample_discrete_laplace(1_000_000, FINE) % 32, minlength=32)
    assert chi_square(counts, np.full(32, 1 / 32)) > FALSE_ALARM


def mpf(bound):
    return mpmath.inf if bound.is_infinite() else mpmath.mpf(str(bound))


@given(bits=st.integers(1, 70), share=st.floats(0, 0.999), inside=st.floats(0.01, 0.99))
def test_bounds_enclose_every_point_of_the_cell(bits, share, inside):
    prefix = int(share * 2**bits)
    (low,), (high,) = (enclose([prefix], bits, Decimal(FINE), c) for c in directed_contexts(bits))
    with mpmath.workdps(60):
        value = -FINE * mpmath.log((prefix + mpmath.mpf(inside)) / 2**bits) - 0.5
        assert mpf(low) <= value <= mpf(high)


def exact_geometric(prefix, ratio):
    (magnitude,) = round_with_more_bits([prefix], ratio, enclose)
    return int(magnitude)


@given(prefix=st.integers(0, 2**63 - 1), ratio=st.floats(0.01, 2.0**30))
def test_exact_geometric_against_mpmath(prefix, ratio):
    with mpmath.workdps(60):
        value = [-ratio * mpmath.log(mpmath.mpf(prefix + end) / 2**63) for end in (1, 0.0001)]
        low, high = (int(mpmath.floor(v)) for v in value)
    assert low <= exact_geometric(prefix, ratio) <= high + (0 if prefix else 10**12)


def asked_by(words, ratio, monkeypatch):
    """The noise for given words, and the prefixes for which the exact path was asked."""
    asked = []

    def spy(prefixes, *_):
        asked.extend(prefixes)
        return [1.0]

    monkeypatch.setattr(samplers, "round_with_more_bits", spy)
    monkeypatch.setattr(samplers, "random_words", lambda n: words[:n])
    return sample_discrete_laplace(len(words), ratio), asked


def words_of(prefix, sign):
    """Words read as a ≥ 0 or −a−1: the same first 63 bits of |U| with either sign."""
    return np.full(3, prefix if sign > 0 else -prefix - 1, np.int64).view(np.uint64)


def boundary_prefixes(ratio, magnitudes):
    """63-bit prefixes that straddle U = e^(−k/t), where the floor jumps."""
    with mpmath.workdps(60):
        return [int(mpmath.floor(mpmath.exp(-mpmath.mpf(k) / ratio) * 2**63)) for k in magnitudes]


@pytest.mark.parametrize("ratio", [1.5, 777.7, FINE, 2.0**26])
@pytest.mark.parametrize("sign", [1, -1])
def test_undecidable_words_always_take_the_exact_path(ratio, sign, monkeypatch):
    magnitudes = np.unique(np.rint(np.geomspace(1, 12, 64) * ratio)).astype(int).tolist()
    for prefix in boundary_prefixes(ratio, magnitudes):
        for near in (prefix - 1, prefix, prefix + 1):
            noise, asked = asked_by(words_of(near, sign), ratio, monkeypatch)
            assert asked == [near] * 3
            assert (noise == sign).all()


@pytest.mark.parametrize("prefix", [0, 1, 2**20, 2**43, 2**44 - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_short_prefixes_always_take_the_exact_path(prefix, sign, monkeypatch):
    """So few bits were drawn that the next ones would move the logarithm by more than the margin."""
    _, asked = asked_by(words_of(prefix, sign), 1.3, monkeypatch)
    assert asked == [prefix] * 3


@given(
    words=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=20, max_size=60),
    ratio=st.sampled_from([0.4, 33.3, FINE]),
)
def test_fast_decisions_hold_for_every_continuation(words, ratio):
    """Where the exact path is not asked, both ends of the cell have the same floor."""
    words = [word for word in words if word >= 0] or [1]  # −0 would be drawn again
    with pytest.MonkeyPatch.context() as patch:
        drawn, asked = asked_by(np.array(words, np.uint64), ratio, patch)
    for word, magnitude in zip(words, drawn.tolist(), strict=True):
        if word not in asked:
            with mpmath.workdps(60):
                ends = [-ratio * mpmath.log(mpmath.mpf(word + e) / 2**63) for e in (0, 1)]
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
    for size in (0, 1, 100):
        with pytest.raises(PrivotError, match=r"steps, not in"):
            sample_discrete_laplace(size, ratio)
    with pytest.raises(PrivotError, match=r"steps, not in"):
        take_buffered(1, sample_discrete_laplace, ratio)

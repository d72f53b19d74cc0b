"""The sampler's law on fine grids, and the filter: what floats cannot decide, they do not."""

from decimal import Decimal

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import ndtr

from laws.mechanism import FALSE_ALARM, chi_square, has_law_and_no_other
from privot.core.errors import PrivotError
from privot.mechanisms import gaussian, samplers
from privot.mechanisms.gaussian import enclose, sample_rounded_gaussian
from privot.mechanisms.samplers import directed_contexts, round_with_more_bits, take_buffered

FINE = 2.0**19.5


def has_the_law(draw, ratio, off):
    """Whether draw(n) has the law of `ratio`; n tells noise that is wrong by a share `off` apart."""
    edges = np.unique(np.rint(np.linspace(-4.5, 4.5, 181 if off < 0.05 else 31) * ratio))

    def law(stddev):
        return np.diff(ndtr((edges + 0.5) / stddev), prepend=0.0, append=1.0)

    def counted(draws):
        below = np.searchsorted(np.sort(draws), edges, side="right")
        return np.diff(below, prepend=0, append=len(draws))

    wrong = law(ratio * (1 + off)), law(ratio * (1 - off))
    return has_law_and_no_other(draw, counted, law(ratio), *wrong)


@pytest.mark.parametrize("ratio", [0.4, 3.3, 1000.7, FINE])
def test_law_with_power_at_one_percent(ratio):
    assert has_the_law(lambda n: sample_rounded_gaussian(n, ratio), ratio, 0.01)


@pytest.mark.parametrize("ratio", [0.4, 3.3, FINE])
def test_exact_path_has_the_same_law(ratio, monkeypatch):
    """Noise that is 20 % off is missed once in a billion runs; five statistics at 1e-7 each."""
    monkeypatch.setattr(samplers, "LOG_ERROR_OK", False)
    assert has_the_law(lambda n: sample_rounded_gaussian(n, ratio), ratio, 0.2)


@pytest.mark.parametrize("ratio", [0.4, 3.3, FINE])
def test_single_draws_have_the_same_law(ratio):
    def draw(count):
        return np.array([take_buffered(1, sample_rounded_gaussian, ratio)[0] for _ in range(count)])

    assert has_the_law(draw, ratio, 0.1)


def test_the_two_values_of_a_pair_are_independent():
    """A block is all first values of its pairs, then all second ones."""
    blocks = [gaussian._draw(2**14, FINE).reshape(2, -1) for _ in range(60)]
    first, second = np.concatenate(blocks, axis=1) / FINE
    limit = 6 / np.sqrt(first.size)
    assert abs((first * second).mean()) < limit
    assert abs(((first**2 - 1) * (second**2 - 1)).mean()) < 2 * limit
    assert abs((abs(first) - second**2 - abs(first).mean() + 1).mean()) < 2 * limit
    in_order = sample_rounded_gaussian(2**20, FINE) / FINE
    for lag in (1, 2, 2**13):
        assert abs((in_order[lag:] * in_order[:-lag]).mean()) < 6 / np.sqrt(in_order.size - lag)


def test_low_bits_are_uniform():
    counts = np.bincount(sample_rounded_gaussian(1_000_000, FINE) % 32, minlength=32)
    assert chi_square(counts, np.full(32, 1 / 32)) > FALSE_ALARM


def polar(u, v, ratio):
    square = u * u + v * v
    return ratio * mpmath.sqrt(-2 * mpmath.log(square) / square) * u


def mpf(bound):
    return mpmath.inf if bound.is_infinite() else mpmath.mpf(str(bound))


@given(
    bits=st.integers(1, 70),
    shares=st.tuples(*[st.floats(0, 0.999)] * 2),
    inside=st.tuples(*[st.floats(0.01, 0.99)] * 2),
)
@example(bits=1, shares=(0.5, 0.5), inside=(0.9, 0.9))  # part of the cell is outside the disk
def test_bounds_enclose_every_point_of_the_cell(bits, shares, inside):
    prefixes = [int(share * 2**bits) for share in shares]
    bounds = (enclose(prefixes, bits, Decimal(FINE), c) for c in directed_contexts(2 * bits))
    with mpmath.workdps(60):
        u, v = ((m + mpmath.mpf(i)) / 2**bits for m, i in zip(prefixes, inside, strict=True))
        outside = u * u + v * v >= 1
        pair = (mpmath.inf, mpmath.inf) if outside else (polar(u, v, FINE), polar(v, u, FINE))
        for low, value, high in zip(next(bounds), pair, next(bounds), strict=True):
            assert mpf(low) <= value <= mpf(high)


def test_exact_pair_against_mpmath():
    rng = np.random.default_rng(3)
    accepted = 0
    for prefixes in rng.integers(0, 2**63, (200, 2)).tolist():
        pair = round_with_more_bits(prefixes, FINE, enclose)
        with mpmath.workdps(60):
            u, v = (mpmath.mpf(m + mpmath.mpf("0.5")) / 2**63 for m in prefixes)
            if u * u + v * v >= 1:
                assert pair == [np.inf, np.inf]
                continue
            accepted += 1
            exact = polar(u, v, FINE), polar(v, u, FINE)
        assert all(abs(k - z) < 0.5001 for k, z in zip(pair, exact, strict=True))
    assert accepted > 100


def given_words(first, second):
    """`random_words` that gives these two signed words to every pair."""

    def words(count):
        return np.repeat(np.array([first, second], np.int64), count // 2).view(np.uint64)

    return words


@pytest.mark.parametrize("ratio", [1.5, 777.7, FINE, 2.0**26])
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_undecidable_words_always_take_the_exact_path(ratio, signs, monkeypatch):
    """Words of U at which ratio·Z crosses a half-integer, found by bisection."""
    rng = np.random.default_rng(4)
    asked = []
    tried = 0

    def spy(prefixes, *_):
        asked.append(tuple(prefixes))
        return [1.0, 2.0]

    monkeypatch.setattr(samplers, "round_with_more_bits", spy)
    for second in rng.integers(0, 2**62, 12).tolist():
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
        tried += 1
        words = [m if sign > 0 else ~m for m, sign in zip((low, second), signs, strict=True)]
        monkeypatch.setattr(samplers, "random_words", given_words(*words))
        noise = sample_rounded_gaussian(20, ratio)
        assert set(asked) == {(low, second)}
        assert set(noise.tolist()) <= {signs[0], 2 * signs[1]}
        asked.clear()
    assert tried > 3


@pytest.mark.parametrize(
    "words", [(0, 0), (1, 1), (2**52, 5), (2**63 - 1, 0), (2**63 - 1, 2**31), (-(2**63), 0)]
)
def test_words_at_the_edges_take_the_exact_path(words, monkeypatch):
    asked = []
    monkeypatch.setattr(
        samplers, "round_with_more_bits", lambda prefixes, *_: asked.append(prefixes) or [1.0, 1.0]
    )
    monkeypatch.setattr(samplers, "random_words", given_words(*words))
    sample_rounded_gaussian(20, 100.0)
    assert asked[0] == [words[0] if words[0] >= 0 else ~words[0], words[1]]


@pytest.mark.parametrize(
    "prefixes", [[0, 0], [1, 1], [2**52, 5], [2**63 - 1, 0], [2**63 - 1, 2**31]]
)
def test_pairs_at_the_edges_are_decided(prefixes):
    for _ in range(10):
        pair = round_with_more_bits(prefixes, 100.0, enclose)
        assert pair == [np.inf, np.inf] or all(abs(k) < 100 * 14 for k in pair)


def test_pairs_outside_the_disk_leave_nothing_behind(monkeypatch):
    """S straddles 1: some continuations are accepted, and only they may come out."""
    monkeypatch.setattr(samplers, "random_words", given_words(2**63 - 1, 3 * 2**30))
    noise = sample_rounded_gaussian(40, 2.0**40)
    assert noise.size == 40
    assert (noise[:1] > 0).all()
    assert abs(noise).max() < 2**40


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf"), 2.0**41])
def test_ratios_out_of_range_are_refused(ratio):
    for size in (0, 1, 100):
        with pytest.raises(PrivotError, match=r"steps, not in"):
            sample_rounded_gaussian(size, ratio)
    with pytest.raises(PrivotError, match=r"steps, not in"):
        take_buffered(1, sample_rounded_gaussian, ratio)

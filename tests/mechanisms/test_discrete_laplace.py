"""The samplers' laws on fine grids, and the filter: what floats cannot decide, they do not."""

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.mechanism import FALSE_ALARM, chi_square, has_law_and_no_other
from privot.core.errors import PrivotError
from privot.mechanisms import sample_planar_laplace
from privot.mechanisms.samplers import discrete_laplace, rounding
from privot.mechanisms.samplers.discrete_laplace import (
    draw_discrete_laplace,
    draw_planar_laplace,
    enclose,
    exact_keep,
    proposal_ratio,
    sample_discrete_laplace,
)
from privot.mechanisms.samplers.rounding import decide, directed_contexts

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
    monkeypatch.setattr(rounding, "LOG_ERROR_OK", False)
    assert has_the_law(lambda n: sample_discrete_laplace(n, ratio), ratio, 0.25)


@pytest.mark.parametrize("ratio", [0.4, 3.3, FINE])
def test_single_draws_have_the_same_law(ratio):
    def draw(count):
        return np.array([draw_discrete_laplace(1, ratio)[0] for _ in range(count)])

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
    (magnitude,) = decide([prefix], ratio, enclose)
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

    monkeypatch.setattr(rounding, "decide", spy)
    monkeypatch.setattr(discrete_laplace, "random_words", lambda n: words[:n])
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
        with pytest.raises(PrivotError, match="ratio"):
            sample_discrete_laplace(size, ratio)
    with pytest.raises(PrivotError, match="ratio"):
        draw_discrete_laplace(1, ratio)


def radii_have_the_law(draw, scale, off):
    """On a fine lattice ‖k‖/t has the law of a Gamma(2) variable: P(> r) = (1 + r) e^−r."""
    edges = np.linspace(0.0, 12.0, 121 if off < 0.05 else 31)

    def law(share):
        tail = (1 + edges / share) * np.exp(-edges / share)
        return np.append(-np.diff(tail), tail[-1])

    def counted(points):
        radius = np.hypot(points[:, 0], points[:, 1]) / scale
        return np.append(np.histogram(radius, edges)[0], (radius >= edges[-1]).sum())

    return has_law_and_no_other(draw, counted, law(1.0), law(1 + off), law(1 - off))


def angle_p_value(points):
    angle = np.arctan2(points[:, 1], points[:, 0])
    counts = np.histogram(angle, np.linspace(-np.pi, np.pi, 97))[0]
    return chi_square(counts, np.full(96, 1 / 96))


def test_fine_law_with_power_at_one_percent():
    assert radii_have_the_law(lambda n: sample_planar_laplace(n, FINE), FINE, 0.01)


def test_angles_are_uniform():
    """Round, where the proposal is square: its angles have a statistic of thousands on 95 degrees."""
    assert angle_p_value(sample_planar_laplace(500_000, FINE)) > FALSE_ALARM
    proposals = discrete_laplace.sample_discrete_laplace((500_000, 2), FINE)
    assert angle_p_value(proposals) < FALSE_ALARM


def test_planar_exact_path_has_the_same_law(monkeypatch):
    monkeypatch.setattr(discrete_laplace, "_MARGIN", float("inf"))
    assert radii_have_the_law(lambda n: sample_planar_laplace(n, FINE), FINE, 0.15)
    assert radii_have_the_law(
        lambda n: np.array(draw_planar_laplace(n, FINE)).reshape(-1, 2), FINE, 0.1
    )


def test_planar_low_bits_are_uniform():
    low = sample_planar_laplace(500_000, FINE) % 8
    counts = np.bincount(low[:, 0] * 8 + low[:, 1], minlength=64)
    assert chi_square(counts, np.full(64, 1 / 64)) > FALSE_ALARM


def excess(x, y, ratio):
    """The exponent a(k), in the precision of the context."""
    proposal = mpmath.mpf(proposal_ratio(ratio))
    return mpmath.sqrt(x * x + y * y) / mpmath.mpf(ratio) - mpmath.mpf(abs(x) + abs(y)) / proposal


@given(ratio=st.floats(1e-3, 2.0**38))
def test_proposals_are_wide_enough_and_no_wider(ratio):
    proposal = Fraction(proposal_ratio(ratio))
    assert proposal**2 >= 2 * Fraction(ratio) ** 2
    assert proposal**2 <= 2 * Fraction(ratio) ** 2 * (1 + Fraction(1, 2**50))


def test_exact_keep_against_mpmath():
    rng = np.random.default_rng(3)
    kept = 0
    for x, y in rng.integers(-3 * int(FINE), 3 * int(FINE), (200, 2)).tolist():
        prefix = int(rng.integers(0, 2**63))
        with mpmath.workdps(40):
            expected = mpmath.mpf(prefix) / 2**63 < mpmath.exp(-excess(x, y, FINE))
        assert exact_keep(prefix, x, y, FINE) == expected
        kept += expected
    assert 50 < kept < 195


def test_the_origin_and_impossibly_far_points_are_decided():
    assert exact_keep(2**63 - 1, 0, 0, 1.5)
    assert exact_keep(0, 3, 4, 1.5)
    assert not exact_keep(2**62, 10**9, 0, 1.5)


@pytest.mark.parametrize("ratio", [1.5, 777.7, FINE, 2.0**26])
@pytest.mark.parametrize("count", [1, 64])
def test_planar_undecidable_words_always_take_the_exact_path(ratio, count, monkeypatch):
    """Words of U at which −ln U crosses a(k), and words a hair away, which floats may decide."""
    asked = []

    def spy(prefix, x, y, ratio):
        asked.append((prefix, x, y))
        return True

    monkeypatch.setattr(discrete_laplace, "exact_keep", spy)
    rng = np.random.default_rng(4)
    for _ in range(12):
        x, y = (int(k) for k in np.rint(rng.laplace(0.0, 1.4 * ratio, 2)))
        with mpmath.workdps(50):
            critical = int(mpmath.floor(mpmath.exp(-excess(x, y, ratio)) * 2**63))
        for prefix, hard in ((min(critical, 2**63 - 1), True), (int(critical * 0.999), False)):
            words = np.full(200, (prefix << 1) + 1, np.uint64)
            monkeypatch.setattr(discrete_laplace, "random_words", lambda n, w=words: w[:n].copy())
            monkeypatch.setattr(discrete_laplace, "random_word", lambda p=prefix: p << 1)
            monkeypatch.setattr(
                discrete_laplace,
                "sample_discrete_laplace",
                lambda size, s, p=(x, y): np.full(size, p),
            )
            monkeypatch.setattr(
                discrete_laplace, "draw_discrete_laplace", lambda n, s, p=(x, y): list(p)
            )
            sample_planar_laplace(count, ratio)
            assert set(asked) == ({(prefix, x, y)} if hard else set())
            asked.clear()


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf"), 2.0**40])
def test_planar_ratios_out_of_range_are_refused(ratio):
    for count in (1, 100):
        with pytest.raises(PrivotError, match="ratio"):
            sample_planar_laplace(count, ratio)

"""The planar sampler: its law on fine grids, and what floats cannot decide, they do not."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.mechanism import FALSE_ALARM, chi_square, has_law_and_no_other
from privot.core.errors import PrivotError
from privot.mechanisms.laplace import sample_discrete_laplace
from studies.rivals import planar_laplace
from studies.rivals.planar_laplace import (
    draw_planar_laplace,
    exact_keep,
    proposal_ratio,
    sample_planar_laplace,
)

FINE = 2.0**19.5


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
    proposals = sample_discrete_laplace((500_000, 2), FINE)
    assert angle_p_value(proposals) < FALSE_ALARM


def test_planar_exact_path_has_the_same_law(monkeypatch):
    monkeypatch.setattr(planar_laplace, "_MARGIN", float("inf"))
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

    monkeypatch.setattr(planar_laplace, "exact_keep", spy)
    rng = np.random.default_rng(4)
    for _ in range(12):
        x, y = (int(k) for k in np.rint(rng.laplace(0.0, 1.4 * ratio, 2)))
        with mpmath.workdps(50):
            critical = int(mpmath.floor(mpmath.exp(-excess(x, y, ratio)) * 2**63))
        for prefix, hard in ((min(critical, 2**63 - 1), True), (int(critical * 0.999), False)):
            words = np.full(200, (prefix << 1) + 1, np.uint64)
            monkeypatch.setattr(planar_laplace, "random_words", lambda n, w=words: w[:n].copy())
            monkeypatch.setattr(planar_laplace, "random_word", lambda p=prefix: p << 1)
            monkeypatch.setattr(
                planar_laplace,
                "sample_discrete_laplace",
                lambda size, s, p=(x, y): np.full(size, p),
            )
            monkeypatch.setattr(
                planar_laplace, "take_buffered", lambda n, draw, s, p=(x, y): list(p)
            )
            sample_planar_laplace(count, ratio)
            assert set(asked) == ({(prefix, x, y)} if hard else set())
            asked.clear()


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan"), float("inf"), 2.0**40])
def test_planar_ratios_out_of_range_are_refused(ratio):
    for count in (1, 100):
        with pytest.raises(PrivotError, match=r"steps, not in"):
            sample_planar_laplace(count, ratio)

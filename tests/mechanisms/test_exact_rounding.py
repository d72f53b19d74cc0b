"""Floats decide only what every continuation of the bits confirms; blocks keep their order; logarithms
with proven bounds enclose the truth, and a bad library is noticed."""

import math
from decimal import ROUND_FLOOR, Decimal

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.mechanisms import samplers
from privot.mechanisms.samplers import (
    cell_middles,
    directed_contexts,
    dyadic,
    fill_array,
    negative_log,
    round_exactly,
    round_with_more_bits,
)


def enclose_uniform(prefixes, bits, ratio, context):
    """h = t|U|: the simplest magnitude."""
    edges = [prefix + (context.rounding != ROUND_FLOOR) for prefix in prefixes]
    return [context.multiply(ratio, dyadic(edge, bits)) for edge in edges]


@given(word=st.integers(-(2**63), 2**63 - 1))
def test_middles_lie_in_their_cells_and_those_of_opposite_words_are_opposite(word):
    """Both to two roundings, which are not the same for either sign."""
    exact = (Decimal(word) + Decimal("0.5")) / 2**63
    for sign, middle in zip((1, -1), cell_middles(np.array([word, ~word])).tolist(), strict=True):
        assert abs(sign * Decimal(middle) - exact) <= abs(exact) * Decimal(2) ** -52
        assert middle != 0


@given(prefixes=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=3))
def test_decided_integers_are_nearest(prefixes):
    rounded = round_with_more_bits(prefixes, 1000.0, enclose_uniform)
    for prefix, nearest in zip(prefixes, rounded, strict=True):
        low, high = (1000 * Decimal(edge) / 2**63 for edge in (prefix, prefix + 1))
        assert low - Decimal("0.5") <= Decimal(nearest) <= high + Decimal("0.5")


@pytest.mark.parametrize(("last", "nearest"), [(0, 0.0), (2**64 - 1, 1.0)])
def test_bits_are_drawn_until_bounds_agree(last, nearest, monkeypatch):
    """3|U| = ½ at |U| = 1/6, whose bits 0101… the first two draws repeat: the third one tells."""
    drawn = []

    def bits(count):
        drawn.append(count)
        return 2**count // 3 if len(drawn) < 3 else last

    monkeypatch.setattr(samplers, "random_bits", bits)
    assert round_with_more_bits([2**63 // 6], 3.0, enclose_uniform) == [nearest]
    assert drawn == [64] * 3


def test_rounding_takes_the_sign_of_the_word_and_asks_where_floats_know_nothing(monkeypatch):
    asked = []
    monkeypatch.setattr(
        samplers,
        "round_with_more_bits",
        lambda prefixes, *_: asked.append(prefixes) or [7.0, np.inf],
    )
    words = np.array([[5, -6, 5, -1], [1, 2, -3, 4]])
    values = np.array([[1.2, 2.9, np.nan, 0.1], [0.1, 3.5, 1.0, 5.0]])
    settled = round_exactly(words, values, 2.0**20, enclose_uniform)
    assert asked == [[5, 2], [5, 2]]
    assert settled.tolist() == [[1.0, -7.0, 7.0, -0.0], [0.0, np.inf, -np.inf, 5.0]]
    assert np.signbit(settled[0, 3])


def test_ties_within_the_error_are_left_to_the_exact_path(monkeypatch):
    asked = []
    monkeypatch.setattr(samplers, "round_with_more_bits", lambda p, *_: asked.append(p[0]) or [9.0])
    ratio, error = 2.0**20, 2.0**-19
    values = np.array(
        [[0.5 - 1.01 * error, 0.5 - 0.99 * error, 0.5 + 0.99 * error, 0.5 + 2 * error]]
    )
    settled = round_exactly(np.arange(4)[None], values, ratio, enclose_uniform)
    assert asked == [1, 2]
    assert settled.tolist() == [[0.0, 9.0, 9.0, 1.0]]


def test_infinite_magnitudes_are_decided_as_such():
    assert round_with_more_bits([3], 1.0, lambda *_: [Decimal("Infinity")]) == [np.inf]


@pytest.mark.parametrize("size", [0, 1, 7, (3, 5), (40_000, 2), (2, 0)])
def test_blocks_of_any_length_fill_the_shape_in_order(size):
    drawn = []

    def draw(wanted, ratio):
        assert ratio == 2.0
        length = [wanted, wanted // 2, wanted + 5, 0][len(drawn) % 4]
        drawn.append(np.arange(length) + sum(map(len, drawn)) * 1.0)
        return drawn[-1]

    out = fill_array(size, 2.0, draw)
    assert out.shape == np.empty(size).shape
    assert out.dtype == np.int64
    kept = np.concatenate([np.zeros(0), *drawn])[: out.size]
    assert (out.ravel() == kept).all() or out.size > 2**15
    assert len(np.unique(out)) == out.size


@given(numerator=st.integers(1, 2**127), extra=st.integers(0, 60))
def test_bounds_enclose_the_logarithm_tightly(numerator, extra):
    bits = 127 + extra
    down, up = directed_contexts(bits)
    lower, upper = negative_log(numerator, bits, down), negative_log(numerator, bits, up)
    with mpmath.workdps(150):
        exact = -mpmath.log(mpmath.mpf(numerator) / mpmath.mpf(2) ** bits)
        assert mpmath.mpf(str(lower)) <= exact <= mpmath.mpf(str(upper))
        assert mpmath.mpf(str(upper)) - mpmath.mpf(str(lower)) <= mpmath.mpf(2) ** -bits


def test_bounds_at_the_ends():
    down, up = directed_contexts(64)
    assert negative_log(0, 64, up) == math.inf
    assert negative_log(2**64, 64, down) == 0 < negative_log(2**64, 64, up) < 1e-40


def test_this_machine_is_accurate_enough():
    assert samplers.LOG_ERROR_OK


@pytest.mark.parametrize("error", [1 + 2.0**-48, 1 - 2.0**-48])
def test_inaccurate_libraries_are_noticed(error, monkeypatch):
    exact_array, exact_scalar = np.log, math.log
    monkeypatch.setattr(np, "log", lambda x: exact_array(x) * error)
    assert not samplers._log_error_ok()
    monkeypatch.setattr(np, "log", exact_array)
    monkeypatch.setattr(math, "log", lambda x: exact_scalar(x) * error)
    assert not samplers._log_error_ok()

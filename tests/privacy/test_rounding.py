"""Directed rounding, safe ends of brackets, and which δ are refused; figures bound the exact value."""

import ast
import math
import random
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privot
from privot.core.errors import PrivotError
from privot.privacy import rounding
from privot.privacy.rounding import (
    at_least,
    at_most,
    bracket,
    check_delta,
    divide_up,
    exactly,
    multiply_up,
    odds_factor,
    percent_at_most,
    round_up,
    sum_up,
)
from privot_benchmarks.printed_figures import (
    PRINTED,
    account_lines,
    calibrate_lines,
    guarantees,
)

floats = st.floats(-1e150, 1e150).filter(lambda x: x == 0 or abs(x) > 1e-150)


def is_smallest_float_above(result, exact):
    return exact <= Fraction(result) and Fraction(math.nextafter(result, -math.inf)) < exact


@given(floats, floats)
def test_every_operation_returns_the_smallest_safe_float(a, b):
    assert is_smallest_float_above(sum_up([a, b]), Fraction(a) + Fraction(b))
    assert is_smallest_float_above(multiply_up(a, b), Fraction(a) * Fraction(b))
    if b:
        assert is_smallest_float_above(divide_up(a, b), Fraction(a) / Fraction(b))


def test_overflow_is_infinite_and_so_refused_later():
    assert round_up(Fraction(10) ** 400) == math.inf


@given(st.floats(1e-6, 1e6), st.sampled_from([-1, 1]))
def test_the_safe_end_of_a_bracket_is_safe_and_near_the_root(root, side):
    """Of a function that steps to −∞ on its safe side, and wiggles beside its root."""

    def excess(x):
        past = side * (x / root - 1) + 1e-14 * math.sin(1e15 * x / root)
        return -math.inf if past > 0.5 else -past

    ends = (root * 1e-3, root * 1.4) if side > 0 else (root * 2.0, root * 0.7)
    unsafe, safe = bracket(excess, *ends, tolerance=1e-12)
    assert excess(safe) <= 0 < excess(unsafe)
    assert abs(safe / root - 1) < 3e-12


def test_deltas_that_promise_nothing_are_refused_and_large_ones_warned_of(recwarn):
    check_delta(1e-6, 100_000)
    assert not recwarn
    with pytest.warns(UserWarning, match="above one over the 2,000,000 records"):
        check_delta(1e-6, 2_000_000)
    with pytest.warns(UserWarning, match="above one over 1,000 records, and how many"):
        check_delta(0.01)
    for delta, words in ((0.1, "every tenth record"), (1.0, "give 0 <= delta < 1")):
        with pytest.raises(PrivotError, match=words):
            check_delta(delta)


NUMBERS = st.floats(min_value=0, max_value=1e300)


def unit(value, digits):
    """One unit of the last of so many digits, never more than 1."""
    return Decimal(1).scaleb(min(0, Decimal(repr(value)).adjusted() + 1 - digits))


@given(NUMBERS, st.integers(1, 12))
def test_bounds_are_on_their_side_and_near(value, digits):
    above, below = at_most(value, digits), at_least(value, digits)
    assert float(below) <= value <= float(above)
    exact = Decimal(repr(value))
    assert Decimal(above) - exact < unit(value, digits) or value == 0
    assert exact - Decimal(below) < unit(value, digits) or value == 0


@given(NUMBERS)
def test_what_was_given_is_printed_as_it_is(value):
    assert float(exactly(value)) == value


@given(st.integers(0, 9999), st.integers(-12, 2))
def test_what_is_short_stays_short(mantissa, exponent):
    value = float(f"{mantissa}e{exponent}")
    assert float(at_most(value)) == value == float(at_least(value))


@given(st.floats(0, 1))
def test_shares_are_bounded_exactly(share):
    percent = Fraction(percent_at_most(share).removesuffix("%"))
    assert percent / 100 >= Fraction(repr(share))


@given(st.floats(1e-12, 34))
def test_a_factor_is_at_least_its_power_and_that_at_least_epsilon(epsilon):
    power, number = re.fullmatch(r"e\^(\S+) = ([\d.,]+)", odds_factor(epsilon)).groups()
    assert float(power) >= epsilon
    with mpmath.workdps(40):
        assert mpmath.mpf(number.replace(",", "")) >= mpmath.exp(mpmath.mpf(power))


def test_a_programs_decimal_context_changes_no_figure():
    plain = [at_most(10.0049), at_least(1.38629), odds_factor(10.0049), percent_at_most(1 / 3)]
    with localcontext() as context:
        context.prec, context.rounding = 2, "ROUND_FLOOR"
        assert plain == [
            at_most(10.0049),
            at_least(1.38629),
            odds_factor(10.0049),
            percent_at_most(1 / 3),
        ]
    assert plain == ["10.01", "1.386", "e^10.01 = 23,000", "33.4%"]


@given(st.integers(0, 2**32 - 1))
def test_every_text_of_a_guarantee_is_safe(seed):
    for guarantee in guarantees(12, seed):
        for figure in PRINTED[type(guarantee)](guarantee):
            assert figure.safe, (guarantee, figure)
            assert figure.near, (guarantee, figure)


def test_the_oracle_sees_a_rounding_to_nearest(monkeypatch):
    """What the test above must catch: half of all figures, as they used to be printed."""
    monkeypatch.setattr(rounding, "ROUND_CEILING", "ROUND_HALF_EVEN")
    read = [f for made in guarantees(600, 0) for f in PRINTED[type(made)](made)]
    assert sum(not figure.safe for figure in read) > len(read) / 5


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_every_line_of_the_commands_is_safe(seed, tmp_path):
    coins = random.Random(seed)
    for figure in (*account_lines(coins), *calibrate_lines(coins, tmp_path)):
        assert figure.safe, figure
        assert figure.near, figure


PRIVACY = re.compile(r"epsilon|delta|\brho\b|stddev|sensitivity|diameter|factor|guarantee")


def test_no_figure_of_privacy_is_formatted_elsewhere():
    """Format specifications round to nearest; constants, in upper case, are short anyway."""
    root = Path(privot.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        if "baselines" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
                value, spec = ast.unparse(node.value), ast.unparse(node.format_spec)
                if PRIVACY.search(value) and re.search(r"[gfe%]'$", spec):
                    found.append(f"{path.relative_to(root)}:{node.lineno}: {value}")
    assert not found

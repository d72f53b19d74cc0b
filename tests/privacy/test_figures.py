"""Printed figures: every one that is read back bounds the exact value, and is near it."""

import ast
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
from benchmarks.printed_figures import (
    PRINTED,
    account_lines,
    calibrate_lines,
    guarantees,
)
from privot.privacy.guarantees import figures
from privot.privacy.guarantees.figures import (
    at_least,
    at_most,
    exactly,
    odds_factor,
    percent_at_most,
)

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
    monkeypatch.setattr(figures, "ROUND_CEILING", "ROUND_HALF_EVEN")
    read = [f for made in guarantees(600, 0) for f in PRINTED[type(made)](made)]
    assert sum(not figure.safe for figure in read) > len(read) / 5


@pytest.mark.parametrize("seed", range(2))
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

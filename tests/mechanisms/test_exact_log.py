"""Logarithms with proven bounds enclose the truth; a bad library is noticed."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.mechanisms.samplers import exact_log
from privot.mechanisms.samplers.exact_log import directed_contexts, negative_log


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
    assert exact_log.LOG_ERROR_OK


@pytest.mark.parametrize("error", [1 + 2.0**-48, 1 - 2.0**-48])
def test_inaccurate_libraries_are_noticed(error, monkeypatch):
    exact_array, exact_scalar = np.log, math.log
    monkeypatch.setattr(np, "log", lambda x: exact_array(x) * error)
    assert not exact_log._log_error_ok()
    monkeypatch.setattr(np, "log", exact_array)
    monkeypatch.setattr(math, "log", lambda x: exact_scalar(x) * error)
    assert not exact_log._log_error_ok()

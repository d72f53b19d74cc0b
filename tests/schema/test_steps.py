"""Values some steps apart: what is declared, coded and written are the decimals that a person writes."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.raw_values import Steps


def column(declared):
    return Schema.from_toml('[columns.x]\nkind = "numeric"\n' + declared).coded["x"]


@given(low=st.integers(-(10**6), 10**6), decimals=st.integers(0, 6), count=st.integers(0, 10**6))
def test_decimals_return_as_they_were_written(low, decimals, count):
    steps = Steps.to_decimals(decimals)
    value = float(f"{(low + count) / 10**decimals:.{decimals}f}")
    assert steps.require_count(value, "value") == low + count
    assert steps.value(steps.count(np.array([value])).round()).tolist() == [value]


@pytest.mark.parametrize(
    ("declared", "spacing"),
    [
        ("bounds = [0.1, 6]\ndecimals = 2", 0.01),
        ("bounds = [0.1, 6]\ndecimals = 2\nbins = [0.1, 0.695, 6]\nspikes = [1.01]", 0.01),
        ("bounds = [1, 31]\nstep = 2.5", 2.5),
        ("bounds = [10, 100]\nstep = 5\ninteger = true", 5),
        ("bounds = [0.5, 5000]\ndecimals = 1\nscale = 'log'\nnullable = true", 0.1),
    ],
)
def test_every_value_returns_to_its_code_and_is_written_exactly(declared, spacing):
    own = column(declared)
    low, high = own.bounds
    decimals = [round(low + k * spacing, 2) for k in range(round((high - low) / spacing) + 1)]
    values = pa.table({"x": decimals})
    codes = own.encode_codes("x", values)
    # Values off their step are on the next one, and what is drawn lies on steps of its code.
    near = pa.table({"x": np.clip(np.array(decimals) + 0.4 * spacing, low, high)})
    assert (own.encode_codes("x", near) == codes).all()
    drawn = own.decode_codes("x", np.repeat(codes, 5), np.random.default_rng(0))["x"]
    assert set(drawn.to_pylist()) <= set(decimals)
    assert (own.encode_codes("x", pa.table({"x": drawn})) == np.repeat(codes, 5)).all()
    points = own.decode_points("x", own.encode_points("x", near))["x"]
    assert points.to_pylist() == decimals
    assert len(set(own.labels)) == own.alphabet.size


def test_what_is_written_has_no_more_digits():
    own = column("bounds = [0, 1]\ndecimals = 1\nbins = 3")
    drawn = own.decode_codes("x", np.zeros(200, int), np.random.default_rng(0))
    held = io.BytesIO()
    csv.write_csv(pa.table(drawn), held)
    assert set(held.getvalue().decode().split()[1:]) == {"0", "0.1", "0.2"}
    assert own.labels == ("0 to 0.2", "0.3 to 0.6", "0.7 to 1")
    assert own.find_code("x", 0.3) == own.find_code("x", "0.30") == 1


def test_a_log_scale_is_one_of_values_and_not_of_steps():
    edges = column("bounds = [1, 1001]\nstep = 5\nscale = 'log'\nbins = 3").alphabet.edges
    assert [1 + 5 * k for k in edges] == [1, 11, 101, 1006]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("bounds = [0.125, 6]\ndecimals = 2", "bound 0.125 lies between the values"),
        (
            "bounds = [0, 6]\nstep = 4",
            "bound 6 lies between the values that occur, which are 4 apart",
        ),
        ("bounds = [0, 6]\nstep = 2\nspikes = [3]", "spike 3 lies between"),
        ("bounds = [0, 6]\ndecimals = 1\nstep = 0.1", "decimals 1 beside step"),
        ("bounds = [0, 6]\ndecimals = 1\ninteger = true", "decimals 1 beside integer"),
        ("bounds = [0, 6]\nstep = 0.5\ninteger = true", "step 0.5 of an integer column"),
        ("bounds = [0, 1e9]\nstep = 1e-9", "too many steps"),
    ],
)
def test_steps_that_cannot_be_are_refused(declared, words):
    with pytest.raises(PrivotError, match=words):
        column(declared)


def test_columns_that_count_in_other_steps_are_not_compared():
    own = column("bounds = [0, 1]\ndecimals = 1")
    with pytest.raises(PrivotError, match="counts them in other steps"):
        own.common_values("x", [column("bounds = [0, 1]\ndecimals = 2")])
    values = own.common_values("x", [column("bounds = [0, 2]\ndecimals = 1")])["x"]
    assert max(values.to_pylist()) == pytest.approx(2)

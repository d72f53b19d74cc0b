"""The one error, words of others on its line, and what is refused as no count."""

import math
import pickle

import numpy as np
import pytest

from privot.errors import PrivotError, printable, require_count, require_seed


@pytest.mark.parametrize("text", ["a\nb", "\r\x1b[2J", "\x9b1A", "\u202e", "\udcff", "\0"])
def test_what_steers_a_terminal_is_spelled(text):
    shown = printable(f"file {text}.csv")
    assert shown.isprintable()
    assert shown.startswith("file ")


def test_what_can_be_read_stays():
    assert printable("Žižek, 30 %, “ε”") == "Žižek, 30 %, “ε”"


def test_it_is_a_value_error_and_travels_between_processes():
    with pytest.raises(ValueError, match="age is 3: give more"):
        raise pickle.loads(pickle.dumps(PrivotError("age is 3: give more")))


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_a_whole_number_of_any_library_comes_back_as_an_int(value):
    for count in (require_count("n", value, 10), require_seed(value)):
        assert count == 3
        assert type(count) is int


@pytest.mark.parametrize(
    "value", [0, 11, -1, 3.0, 2.5, math.nan, math.inf, np.float64(3), True, np.True_, "3", None]
)
def test_no_other_value_is_a_count(value):
    with pytest.raises(PrivotError, match=r"n .* cannot be: give a whole number from 1 to 10"):
        require_count("n", value, 10)

"""The one error, and words of others on its line."""

import pickle

import pytest

from privot.errors import PrivotError, printable


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

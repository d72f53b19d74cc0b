"""The one error, words of others on its line, and what is refused as no count."""

import math
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from privot.core.errors import PrivotError, extra_of, printable, require_count, require_seed

ROOT = Path(__file__).parents[2]


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


def test_every_package_of_an_extra_is_known_with_it():
    """A package that several extras bring is told with the first of them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == []
    named = {}
    for extra in ("release", "learn", "serve"):
        for requirement in project["optional-dependencies"][extra]:
            package = re.match(r"[\w-]+", requirement)[0]
            named.setdefault(package, extra)
    del named["privot"]
    assert {name: extra_of(ModuleNotFoundError(name=name)) for name in named} == {
        name: (name, extra) for name, extra in named.items()
    }
    assert extra_of(ModuleNotFoundError(name="antigravity")) is None
    assert extra_of(ModuleNotFoundError()) is None


@pytest.mark.parametrize(
    "line",
    [
        "from privot.schema import Schema",
        "import privot.randomizer",
        "from privot.collector import seal",
    ],
)
def test_what_an_import_lacks_is_named_with_its_extra(line):
    """Also where no attribute of `privot` is asked for."""
    code = f"""
import sys
sys.modules["pydantic"] = sys.modules["pyarrow"] = None
{line}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    package = line.split()[1]
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ModuleNotFoundError: {package} needs p"), done.stderr
    assert last.endswith(": pip install 'privot[release]'")

"""What the root of the library offers loads on first use, names and submodules alike."""

import subprocess
import sys

import pytest

import privot


def test_submodules_load_when_they_are_named():
    code = """
import sys, privot
assert not {m for m in sys.modules if m.startswith("privot.")}
assert privot.schema.Schema is privot.Schema
assert "torch" not in sys.modules
assert privot.local.fit is privot.fit
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_name_is_there_and_others_are_not():
    for name in privot.__all__:
        assert getattr(privot, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'synthesise'"):
        _ = privot.synthesise

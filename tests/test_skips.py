"""Every run ends with what was skipped and why, however many processes ran it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = {
    "test_in_part.py": """
import pytest

@pytest.mark.skipif(True, reason="Apples is not installed")
@pytest.mark.parametrize("number", range(3))
def test_apples(number):
    pass

def test_pears():
    pytest.importorskip("pears_that_nobody_installs")

def test_passes():
    pass
""",
    "test_as_a_whole.py": """
import pytest
pytest.importorskip("plums_that_nobody_installs", reason="Plums is not installed")
""",
    "without_doctests.py": "raise ValueError('imported for doctests that it does not have')",
    "with_doctests.py": '"""Count.\n\n>>> 1 + 1\n2\n"""',
}


@pytest.mark.parametrize("processes", ["0", "2"])
def test_what_is_skipped_is_counted_by_its_reason(tmp_path, processes):
    root = Path(__file__).parents[1]
    (tmp_path / "conftest.py").write_text((root / "conftest.py").read_text(encoding="utf-8"))
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --doctest-modules\n")
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-n", processes]
    command += ["-p", "no:cacheprovider", "."]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other plugins take long to load
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=alone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed, 5 skipped" in done.stdout
    said = [line for line in done.stdout.splitlines() if line.startswith("skipped because ")]
    assert said == [
        "skipped because Apples is not installed: 3 tests",
        "skipped because Plums is not installed: all of test_as_a_whole.py",
        "skipped because pears_that_nobody_installs is not installed: 1 test",
    ]

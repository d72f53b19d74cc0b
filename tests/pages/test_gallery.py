"""Scripts of the gallery: a title, a lesson, public names, pictures in our style; and they run."""

import ast
import os
import re
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import privot

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("*.py"))
FEWEST_LINES, MOST_LINES = 30, 90
scripts = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


def parsed(script):
    return ast.parse(script.read_text(encoding="utf-8"))


def public(module, name):
    """Whether a package lists a name, or a module that lists none has it without an underscore."""
    hidden = any(part.startswith("_") for part in [*module.split("."), name])
    found = import_module(module)
    return not hidden and name in getattr(found, "__all__", dir(found))


def test_every_script_has_its_place():
    placed = runpy.run_path(str(ROOT / "site" / "gallery_order.py"))["ORDER"]
    assert sorted(placed) == [script.stem for script in SCRIPTS]


@scripts
def test_it_begins_with_a_title_and_a_lesson(script):
    title, line, empty, *lesson = ast.get_docstring(parsed(script)).splitlines()
    assert len(title) <= 45, "it stands under a thumbnail"
    assert (set(line), len(line), empty) == ({"="}, len(title), "")
    assert "" not in lesson, "one paragraph"
    assert len(re.findall(r"\*\*[^*]+\*\*", " ".join(lesson))) == 1, "the lesson is what is in bold"


@scripts
def test_it_is_short_and_told_in_steps(script):
    text = script.read_text(encoding="utf-8")
    assert FEWEST_LINES <= len(text.splitlines()) <= MOST_LINES
    steps = re.findall(r"^# %%\n(.*)", text, re.M)
    assert len(steps) >= 2
    assert all(step.startswith("# ") for step in steps)
    assert 'plt.style.use("privot.report.paper")' in text or '["privot.report.paper", ' in text


@scripts
def test_it_uses_public_names(script):
    nodes = [*ast.walk(parsed(script))]
    ours = [
        (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "privot"
        for alias in node.names
    ]
    used = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "privot"
    }
    assert ours or used
    assert not [each for each in ours if not public(*each)]
    assert used <= set(privot.__all__)
    assert not [n.attr for n in nodes if isinstance(n, ast.Attribute) and n.attr.startswith("_")]


@pytest.mark.slow
@scripts
def test_it_runs_and_draws(script, tmp_path):
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1])\n"
        "import matplotlib.pyplot as plt; assert all(plt.figure(n).axes for n in plt.get_fignums())\n"
        "assert plt.get_fignums(), 'no picture'; plt.savefig('picture.png')"
    )
    apart = {"MPLBACKEND": "agg", "PRIVOT_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(script)],
        env=os.environ | apart, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "picture.png").stat().st_size > 0

"""The walk-throughs run as they stand: their schemas, their commands, the figures of their plans."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from commands import privot
from privot.schema import Schema

ROOT = Path(__file__).parents[2]
PAGES = {
    page.stem: page.read_text(encoding="utf-8") for page in ROOT.glob("docs/walkthroughs/*.md")
}
each = pytest.mark.parametrize("name", ["app_telemetry", "health_survey", "mobility"])


def fences(name, language):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGES[name], re.DOTALL | re.MULTILINE)
    return [text for kind, text in blocks if kind == language]


def commands(name):
    return [line for block in fences(name, "console") for line in block.splitlines()]


def prepare(name, folder):
    """Write the schema under the name that the commands use."""
    (file,) = set(re.findall(r"[\w/]+\.toml", " ".join(commands(name))))
    (text,) = fences(name, "toml")
    (folder / file).write_text(text)
    return Schema.load(folder / file)


def run(command, folder, monkeypatch):
    program, *words = shlex.split(command)
    if program == "python":
        script, *words = words
        monkeypatch.chdir(folder)
        monkeypatch.setattr("sys.argv", [script, *words])
        runpy.run_path(str(ROOT / script), run_name="__main__")
        return ""
    done = privot(folder, *words, PRIVOT_STATE_DIR=folder / "state")
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_all_walk_throughs_are_tested():
    assert sorted(PAGES) == ["app_telemetry", "health_survey", "mobility"]


@each
def test_the_schema_is_public_and_names_its_unit(name, tmp_path):
    schema = prepare(name, tmp_path)
    assert schema.unit == ("device" if name == "app_telemetry" else "person")
    assert len(schema.columns) == 4


@each
def test_the_plan_is_as_shown(name, tmp_path, monkeypatch):
    prepare(name, tmp_path)
    planned = [command for command in commands(name) if command.startswith("privot plan ")]
    shown = [text for text in fences(name, "text") if text.startswith("report ")]
    assert len(planned) == len(shown) == (name != "mobility")
    for command, text in zip(planned, shown):
        assert set(text.splitlines()) <= set(run(command, tmp_path, monkeypatch).splitlines())


@each
@pytest.mark.slow
def test_the_commands_run(name, tmp_path, monkeypatch):
    prepare(name, tmp_path)
    said = "".join(run(command, tmp_path, monkeypatch) for command in commands(name))
    assert {
        "app_telemetry": "ε = 18 (pure) over 52, local, per device",
        "health_survey": "ε = 2 (pure), local, per person",
        "mobility": "together ε = 1, δ = 1e-06, replace_one, per person",
    }[name] in said

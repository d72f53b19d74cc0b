"""The guide to tables works as it stands: its schema, its commands, the plan it shows."""

import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pytest

from commands import privot

DOCS = Path(__file__).parents[1] / "docs"
GUIDE = (DOCS / "guides" / "tables.md").read_text()


def fences(language):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return [text for name, text in blocks if name == language]


def write_people(path, num, seed):
    """Rows with the guide's columns, gaps and unlisted regions among them."""
    rng = np.random.default_rng(seed)
    days = np.datetime64("1950-01-01") + rng.integers(0, 27_000, num)
    hours = np.where(rng.random(num) < 0.4, 40, rng.integers(1, 100, num))
    rows = zip(
        rng.integers(17, 91, num),
        np.where(rng.random(num) < 0.2, "", hours.astype(str)),
        days.astype(str),
        rng.choice(["F", "M"], num),
        rng.choice(["north", "south", "east", "west", "abroad"], num),
        rng.choice(["true", "false", ""], num),
    )
    lines = ["age,hours,moved_in,sex,region,owner", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def commands():
    lines = [line for fence in fences("") for line in fence.splitlines()]
    return [line for line in lines if line.startswith("privot ")]


def output(folder, command):
    done = privot(folder, *shlex.split(command)[1:])
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_the_plan_it_shows_is_the_plan(tmp_path):
    (tmp_path / "schema.toml").write_text(fences("toml")[0])
    planned = next(command for command in commands() if " plan " in command)
    out = output(tmp_path, planned)
    assert fences("text")[0] in out
    calibrated = next(command for command in commands() if " calibrate " in command)
    assert out.splitlines()[-1] == f"next: {calibrated}"


@pytest.mark.slow
def test_the_commands_run(tmp_path):
    (tmp_path / "schema.toml").write_text(fences("toml")[0])
    write_people(tmp_path / "people.csv", 2000, 0)
    write_people(tmp_path / "holdout.csv", 1000, 1)
    assert [command.split()[1] for command in commands()] == [
        "schema", "plan", "calibrate", "privatize", "fit", "sample", "sample", "evaluate",
    ]  # fmt: skip
    for command in commands():
        output(tmp_path, command)
    young = pc.read_csv(tmp_path / "young_women.csv")
    assert set(young["sex"].to_pylist()) == {"F"}
    assert max(young["age"].to_pylist()) < 25
    assert "not private" in (tmp_path / "report.html").read_text()


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)", GUIDE)
    assert targets
    assert not [t for t in targets if "://" not in t and not (DOCS / "guides" / t).exists()]

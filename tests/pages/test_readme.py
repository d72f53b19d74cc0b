"""The README's files and commands work as they stand there."""

import re
import tomllib
from pathlib import Path

import numpy as np

from commands import privot
from privot import Randomizer, Schema
from privot.demo.homes import draw_people
from privot.tables.files import write_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def fences(language):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [text for name, text in blocks if name == language]


def people(num, seed):
    rng = np.random.default_rng(seed)
    table = draw_people(num, seed)
    table = table.append_column("age", [rng.integers(17, 90, num)])
    return table.append_column("sex", [rng.choice(["Female", "Male"], num)])


def test_the_six_commands_run(tmp_path):
    """On a CSV with the README's columns."""
    (tmp_path / "schema.toml").write_text(fences("toml")[0])
    write_table(people(500, 0), tmp_path / "people.csv")
    write_table(people(300, 1), tmp_path / "holdout.csv")
    commands = [
        line for fence in fences("") for line in fence.splitlines() if line.startswith("privot ")
    ]
    # The other two systems' commands are tested with the command line and with their guide.
    commands = [c for c in commands if c.split()[1] not in ("central", "integral")]
    assert [c.split()[1] for c in commands] == [
        "schema", "calibrate", "privatize", "fit", "sample", "evaluate",
    ]  # fmt: skip
    for command in commands:
        done = privot(tmp_path, *command.split()[1:])
        assert done.returncode == 0, (command, done.stderr)
    assert (tmp_path / "report.html").exists()


def test_the_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(fences("toml")[0])
    code = fences("python")[0]
    names = {"table": people(300, 0), "holdout": people(300, 1)}
    exec(compile(code, "README.md", "exec"), names)
    assert names["synthetic"].num_rows == 10_000


def test_the_guarantee_it_prints_is_the_one_it_gets():
    schema = Schema.from_dict(tomllib.loads(fences("toml")[0]))
    comment = re.search(r"print\(model.guarantee\)\s+# (.*)", README).group(1)
    assert str(Randomizer.calibrate(schema, epsilon=4.0).guarantee) == comment


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)", README)
    assert targets
    missing = [t for t in targets if "://" not in t and not (ROOT / t).exists()]
    assert not missing

"""The guide to integral privacy works as it stands: its schema, its commands, what they print."""

import re
import shlex
from pathlib import Path

import numpy as np

from commands import privot

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guides" / "integral.md").read_text()


def fences(language):
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return [text for name, text in blocks if name == language]


def test_the_commands_do_what_it_says(tmp_path):
    (tmp_path / "schema.toml").write_text(fences("toml")[0])
    ages = np.random.default_rng(0).normal(30, 6, 500).clip(18, 98)
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(f"{a:.1f}" for a in ages) + "\n")
    commands = [line for fence in fences("") for line in fence.splitlines()]
    printed = []
    for command in commands:
        done = privot(tmp_path, *shlex.split(command)[1:])
        printed.append((done.returncode, done.stdout, done.stderr))
    assert [command.split()[2] for command in commands] == ["fit", "sample", "sample", "sample"]
    assert [code for code, _, _ in printed] == [0, 0, 0, 2]
    fitted, refused = fences("text")
    assert printed[0][1] == fitted
    assert printed[3][2] == refused
    rows = (tmp_path / "draws.csv").read_text().splitlines()
    assert rows[0].strip('"') == "age"
    assert len(rows) == 41


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)", GUIDE)
    assert targets
    assert not [t for t in targets if "://" not in t and not (DOCS / "guides" / t).exists()]

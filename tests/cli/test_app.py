"""The six commands on a CSV of one's own, and every refusal: one line, exit code 2, nothing written."""

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.main import get_command

from cli.conftest import SCHEMA
from commands import privot
from privot import __version__
from privot.cli.app import app


def test_the_six_commands_leave_what_they_say(whole):
    assert pq.read_table(whole / "synthetic.parquet").num_rows == 1000
    page = (whole / "report.html").read_text()
    assert "This report is not private" in page
    assert "http://" not in page
    assert "https://" not in page
    model = json.loads((whole / "model" / "model.json").read_text())
    assert model["guarantee"]["epsilon"] <= 4
    assert not (whole / "model.checkpoint").exists()


def test_calibrate_tells_the_noise_before_anyone_reports(whole):
    done = privot(
        whole,
        "calibrate",
        "schema.toml",
        "--epsilon",
        "2",
        "--mechanism",
        "laplace",
        "-o",
        "r2.json",
        "--json",
    )
    told = json.loads(done.stdout)
    rows = {row["column"]: row for row in told["expected_noise"]}
    assert rows["height"]["stddev"] == pytest.approx([10 * 2**0.5], rel=1e-5)
    assert rows["color"]["keep"] == pytest.approx(np.e / (np.e + 2), rel=1e-6)
    words = privot(whole, "calibrate", "schema.toml", "--epsilon", "2", "-o", "r3.json").stdout
    assert "2 of 2 columns, jointly: " in words
    words = privot(
        whole, "calibrate", "schema.toml", "--epsilon", "2", "--report", "split", "-o", "r4.json"
    ).stdout
    assert "height: within 25% of the range from the truth with probability 58.3%; as an " in words
    assert "window: at ε = 1 its planned error is 1% of the range, the least; laplace 3.2%" in words


def test_values_outside_their_bounds_are_counted_for_the_device_only(folder):
    with open(folder / "people.csv", "a") as file:
        file.write("99,red\n-5,blue\n")
    privot(folder, "calibrate", "schema.toml", "--epsilon", "4")
    done = privot(folder, "privatize", "people.csv", "-r", "randomizer.json")
    assert done.returncode == 0
    assert "2 of height" in done.stderr
    assert "not private" in done.stderr
    assert "2 of height" not in done.stdout


def test_values_out_of_bounds_are_refused_where_the_schema_says_so(folder):
    schema = (folder / "schema.toml").read_text()
    refusing = schema.replace("bounds = [0, 10]", 'bounds = [0, 10]\nout_of_bounds = "refuse"')
    assert refusing != schema
    (folder / "schema.toml").write_text(refusing)
    privot(folder, "calibrate", "schema.toml", "--epsilon", "4")
    with open(folder / "people.csv") as file:
        line = 1 + len(file.readlines())
    with open(folder / "people.csv", "a") as file:
        file.write("99,red\n10,red\n-5,blue\n")
    before = sorted(p.name for p in folder.iterdir())
    done = privot(folder, "privatize", "people.csv", "-r", "randomizer.json")
    assert done.returncode == 2
    words = f"line {line}: column 'height' is out of bounds (0 to 10): correct it, or declare "
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(p.name for p in folder.iterdir()) == before
    done = privot(folder, "schema", "check", "schema.toml", "--against", "people.csv")
    assert done.returncode == 1
    assert "height: 2 of " in done.stdout
    assert "would be moved" not in done.stdout


REFUSED = {
    "a value that is not a number": (
        "people.csv",
        "height,color\nx,red\n",
        "people.csv, line 2: column 'height' has text, not a number",
    ),
    "a value that is NaN": (
        "people.csv",
        "height,color\nnan,red\n",
        "line 2: column 'height' has no value",
    ),
    "an infinite value": (
        "people.csv",
        "height,color\n1,red\ninf,red\n",
        "line 3: column 'height' is infinite",
    ),
    "an unknown category": (
        "people.csv",
        "height,color\n1,pink\n",
        "line 2: column 'color' is none of its",
    ),
    "a missing column": ("people.csv", "height\n1\n", "columns ['color'] are missing"),
    "an extra column": ("people.csv", "height,color,x\n1,red,2\n", "['x'] are not in the schema"),
    "an empty file": ("people.csv", "", "is empty"),
    "a header alone": ("people.csv", "height,color\n", "no rows"),
    "an altered randomizer": ("randomizer.json", "{}", "not readable"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_records_are_refused_and_nothing_is_written(folder, case):
    assert privot(folder, "calibrate", "schema.toml", "--epsilon", "4").returncode == 0
    name, content, words = REFUSED[case]
    (folder / name).write_text(content)
    before = sorted(p.name for p in folder.iterdir())
    done = privot(folder, "privatize", "people.csv", "-r", "randomizer.json")
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.startswith("privot: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("calibrate schema.toml --epsilon 0", "epsilon 0.0 promises nothing"),
        ("calibrate schema.toml --epsilon 1 --mechanism gaussian", "delta 0 is not possible"),
        ("calibrate schema.toml --epsilon 1 --mechanism gaussian --delta 1", "delta is 1.0"),
        ("calibrate nowhere.toml --epsilon 1", "cannot be read"),
        ("fit nowhere.parquet", "is not there"),
        ("fit people.csv", "reports without their randomizer"),
        ("sample nowhere", "cannot be read"),
        ("sample nowhere -o x.docx", "unknown format"),
        ("evaluate nowhere --against people.csv", "cannot be read"),
    ],
)
def test_other_refusals(folder, arguments, words):
    before = sorted(p.name for p in folder.iterdir())
    done = privot(folder, *arguments.split())
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(p.name for p in folder.iterdir()) == before


def test_a_schema_without_bounds_is_refused(folder):
    (folder / "schema.toml").write_text(SCHEMA.replace("bounds = [0, 10]", ""))
    done = privot(folder, "schema", "check", "schema.toml")
    assert done.returncode == 2
    assert "bounds of column 'height' are missing: declare them in the schema" in done.stderr


def test_usage_errors_exit_with_two(folder):
    assert privot(folder, "calibrate", "schema.toml").returncode == 2
    assert privot(folder, "fly").returncode == 2


def test_one_column_of_several_warns_marginals_only(folder):
    done = privot(folder, "calibrate", "schema.toml", "--epsilon", "4", "--report-columns", "1")
    assert done.returncode == 0
    assert "marginals only" in done.stderr


MOST_COMMANDS = 30


def commands(group, *names):
    """The words of every command."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield [*names, name]


def test_there_are_not_many_commands_and_help_names_an_example_of_each(folder):
    every = [*commands(get_command(app))]
    assert len(every) <= MOST_COMMANDS
    for words in every:
        done = privot(folder, *words, "--help")
        assert done.returncode == 0
        assert f"Example: privot {' '.join(words)}" in " ".join(done.stdout.split())


def test_the_version_is_told(folder):
    assert privot(folder, "--version").stdout == f"privot {__version__}\n"


@pytest.mark.parametrize(
    "typed",
    [
        {"_PRIVOT_COMPLETE": "complete_bash", "COMP_WORDS": "privot central ", "COMP_CWORD": "2"},
        {"_PRIVOT_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "privot central "},
    ],
)
def test_a_shell_completes_commands(folder, typed):
    done = privot(folder, **typed)
    assert done.returncode == 0
    assert set(re.findall(r"fit|train|adapt|draws", done.stdout)) == {"fit", "adapt"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_a_shell_is_told_asks_this_program(folder, shell):
    told = privot(folder, _PRIVOT_COMPLETE=f"source_{shell}").stdout
    assert f"_PRIVOT_COMPLETE=complete_{shell}" in told

"""What is printed: one line each, and nothing of a stranger's that steers a terminal."""

import re
import subprocess
import sys
from dataclasses import fields

import pytest

from commands import privot
from privot import FitSettings, Randomizer, Schema
from privot.cli.console import (
    complain,
    counted,
    row_bar,
    settings_options,
    short_warnings,
    training_bar,
)


def test_a_complaint_is_one_line_whatever_it_quotes(capsys):
    complain("a file called\n\n  x\x1b[2J")
    short_warnings(UserWarning("two\nlines"), UserWarning, "file.py", 3)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "privot: a file called x\\x1b[2J\nprivot: warning: two lines\n")


def test_without_a_terminal_a_tenth_of_many_steps_is_a_line(capsys):
    with training_bar() as advance:
        for step in range(1, 31):
            advance(step, 30, 0.5)
    with row_bar() as rows:
        assert list(counted([], 10, rows)) == []
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"   step {step} of 30   loss 0.5000" for step in range(3, 31, 3)]


@pytest.mark.parametrize(("pause", "told"), [(0.0, []), (0.9, [4, 7, 10]), (3.0, range(2, 13))])
def test_of_few_steps_those_are_told_that_take_two_seconds(capsys, monkeypatch, pause, told):
    clock = {"now": 5.0}
    monkeypatch.setattr("privot.cli.console.time.perf_counter", lambda: clock["now"])
    with training_bar() as advance:
        for step in range(1, 13):
            advance(step, 12, 0.5)
            clock["now"] += pause
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"   step {step} of 12   loss 0.5000" for step in told]


def test_a_long_fit_tells_after_twenty_steps_how_long_it_will_take(capsys, monkeypatch):
    clock = iter(range(1, 10_000))
    monkeypatch.setattr("privot.cli.console.time.perf_counter", lambda: float(next(clock)))
    seen = []
    with training_bar() as advance:
        for step in range(1, 31):
            advance(step, 400, 0.5)
            seen.append(capsys.readouterr().err)
    (line,) = [said for said in seen if said]
    assert seen.index(line) == 19
    assert re.fullmatch(
        r"   400 steps will take about 1[0-9] minutes \(0.4\d* steps a second\)\n", line
    )


# Arrow says by itself what it could not decode.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_strangers_words_do_not_steer_the_terminal(tmp_path):
    """Neither a file's name nor what a reader says of its content holds a control character."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    home = '[columns.home]\nkind = "vector"\ncolumns = ["x", "y"]\nradius = 1.0\n'
    randomizer = Randomizer.calibrate(Schema.from_toml(home), 2.0)
    randomizer.save(tmp_path / "randomizer.json")
    randomizer.privatize({"x": [0.0], "y": [0.0]}).save(inbox / "honest.parquet")
    (inbox / "\x1b[2J\r\x9b1Am.csv").write_bytes(b"\x00\x1b[31mred\n\xb1\x1b]0;title\x07,1\n")
    done = privot(tmp_path, "collect", "inbox", "-r", "randomizer.json", "-o", "all.parquet")
    assert done.returncode == 0, done.stderr
    aside = (tmp_path / "all.parquet.quarantine.csv").read_text(encoding="utf-8")
    for said in (done.stdout, done.stderr, aside):
        assert all(letter.isprintable() for letter in said.replace("\n", ""))
    assert r"\x1b[2J\r\x9b1Am.csv" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_are_the_fields_of_the_settings_with_their_defaults():
    names = [each.name for each in fields(FitSettings) if each.name != "hidden"]
    options = {each.name: each for each in settings_options(FitSettings, names, "Settings")}
    assert list(options) == names
    for each in fields(FitSettings):
        if each.name != "hidden":
            assert options[each.name].default == each.default
            assert options[each.name].help.endswith((".", ")"))
    assert "--batch-size" in options["batch_size"].opts
    assert "likelihood" in options["loss"].help


def test_help_of_fit_imports_nothing_that_computes():
    code = (
        "import sys; sys.argv = ['privot', 'fit', '--help']\n"
        "from privot.cli import main\n"
        "try: main()\n"
        "except SystemExit: print([m for m in ('torch', 'numba', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--learning-rate" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"

"""What is printed: one line each, and nothing of a stranger's that steers a terminal."""

import pytest

from commands import privot
from privot import Randomizer, Schema
from privot.cli.console import complain, counted, row_bar, short_warnings, training_bar


def test_a_complaint_is_one_line_whatever_it_quotes(capsys):
    complain("a file called\n\n  x\x1b[2J")
    short_warnings(UserWarning("two\nlines"), UserWarning, "file.py", 3)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "privot: a file called x\\x1b[2J\nprivot: warning: two lines\n")


def test_without_a_terminal_a_tenth_of_the_steps_is_a_line(capsys):
    with training_bar() as advance:
        for step in range(1, 31):
            advance(step, 30, 0.5)
    with row_bar() as rows:
        assert list(counted([], 10, rows)) == []
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"   step {step} of 30   loss 0.5000" for step in range(3, 31, 3)]


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

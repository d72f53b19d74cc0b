"""The editor of `privot schema new`: asks, shows, asks again, and loses nothing."""

import io
import sys
import tomllib

import pytest

from privot.cli import main
from privot.schema import Schema


@pytest.fixture
def new(monkeypatch, capsys, tmp_path):
    """Answer `privot schema new`; return (exit code, the schema's file or None, what was said)."""
    monkeypatch.chdir(tmp_path)

    def call(*lines, arguments=()):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        monkeypatch.setattr(sys, "argv", ["privot", "schema", "new", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        path = tmp_path / "schema.toml"
        said = captured.out + captured.err
        return stopped.value.code, path.read_text() if path.exists() else None, said

    return call


AGE = ["age", "number", "17", "90", "0", "n", "40", "years", "n", "y"]
SEX = ["sex", "cat", "F, M", "", "y", "y"]


def test_columns_are_declared_one_after_another(new):
    paid = ["paid", "n", "1", "20000", "2", "y", "", "", "n", "y"]
    came = ["came", "date", "2020-01-01", "2024-12-31", "day", "n", "y"]
    others = ["owner", "yes", "n", "y", "id", "identifier", r"P-\d{3}", "y", ""]
    code, text, said = new(*AGE, *SEX, *paid, *came, *others)
    assert code == 0
    columns = tomllib.loads(text)["columns"]
    assert list(columns) == ["age", "sex", "paid", "came", "owner", "id"]
    assert columns["age"]["spikes"] == [40]
    assert columns["age"]["measured_in"] == "years"
    assert columns["sex"] == {"kind": "categorical", "categories": ["F", "M"], "nullable": True}
    assert (columns["paid"]["scale"], columns["paid"]["decimals"]) == ("log", 2)
    assert Schema.from_toml(text).table_columns == ("age", "sex", "paid", "came", "owner")
    assert "never from the records" in said
    assert "reported as one of 3: F, M, (missing)" in said
    assert "samples may have:" in said
    assert "made up, never reported: P-" in said


def test_what_cannot_be_is_asked_again(new):
    code, text, said = new(
        "age", "size", "n", "9", "1", "", "n", "", "", "n", *AGE[1:], "age", *SEX, ""
    )
    assert code == 0
    assert "'size' is none of them" in said
    assert "bounds [9.0, 1.0] are not an interval" in said
    assert "'age' is declared already" in said
    assert list(tomllib.loads(text)["columns"]) == ["age", "sex"]


def test_what_is_not_kept_may_be_declared_again_or_left_out(new):
    code, text, _ = new("x", *SEX[1:-1], "n", "y", *SEX[1:-1], "n", "n", *SEX, "")
    assert code == 0
    assert list(tomllib.loads(text)["columns"]) == ["sex"]


def test_the_end_of_the_pipe_writes_nothing_half(new):
    code, text, said = new(*AGE, "sex", "category")
    assert (code, text) == (1, None)
    assert "nothing was declared, and nothing written" in said


def test_ctrl_c_asks_whether_to_keep_what_is_declared(new, monkeypatch):
    import typer

    ask = typer.prompt

    def interrupted(text, **options):
        answer = ask(text, **options)
        if answer == "stop":
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(typer, "prompt", interrupted)
    code, text, _ = new(*SEX, "stop", "y")
    assert code == 0
    assert list(tomllib.loads(text)["columns"]) == ["sex"]


def test_columns_are_taken_as_lines_with_rules(new):
    lines = ["a:int[0,9]", "b:int[0,9]", "sum:int[0,18]"]
    code, text, said = new(
        arguments=["--columns", *lines, "--rule", "a <= b", "--rule", "sum = a + b"]
    )
    assert code == 0
    assert "schema.toml: 3 columns" in said
    assert Schema.from_toml(text).table_columns == ("a", "b")
    code, again, said = new(arguments=["--columns", "a:int[9,0]", "--force"])
    assert code == 2
    assert again == text

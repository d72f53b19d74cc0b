"""`privot audit`: verdict and exit code, for honest and for doctored randomizers."""

import json
import math
import sys
import warnings

import pytest

from privot.audit import law
from privot.cli import main
from privot.randomizer import Randomizer
from privot.randomizer.integrity import seal
from privot.schema import Schema

TWO = Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [17, 90]
[columns.sex]
kind = "categorical"
categories = ["Female", "Male"]
""")
ONE = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [17, 90]')
SURE = "--confidence 0.999999"


@pytest.fixture
def audit(monkeypatch, capsys):
    """Run `privot audit …`; return (exit code, standard output, standard error).

    Streams are short: `tests/audit` asks what long ones show.
    """
    monkeypatch.setattr(law, "_NUM_SINGLES", 4)
    monkeypatch.setattr(law, "_MAX_STREAM_ROWS", 2**8)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main replaces it

    def run(path, arguments=""):
        monkeypatch.setattr(sys, "argv", ["privot", "audit", str(path), *arguments.split()])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return run


@pytest.fixture
def write(tmp_path):
    """Write a randomizer, its fields changed by a function, with a fingerprint that fits them."""

    def save(randomizer, change=None):
        fields = json.loads(randomizer.to_json())
        if change is not None:
            change(fields)
        unsealed = {k: v for k, v in fields.items() if k not in ("fingerprint", "format")}
        path = tmp_path / "randomizer.json"
        path.write_text(seal(**unsealed))
        return path

    return save


def halve_the_scale(fields):
    fields["mechanisms"]["age"]["scale"] /= 2


def test_an_honest_randomizer_passes(audit, write):
    path = write(Randomizer.calibrate(TWO, 2.0, report="split"))
    code, out, err = audit(path, f"--draws 5000 {SURE}")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"{path}: promised ε = 2 (pure), local, per person"
    assert lines[-1] == f"{path}: no contradiction found"
    assert "age: epsilon at least 0." in out
    assert "sex: epsilon at least 0." in out
    assert out.count("promised 1 ") == 2
    assert "age: no noise repeats between first call, second call, thread 1" in out
    assert "child of a fork in C" in out
    assert "What no audit finds" in out
    assert "REFUTED" not in out


def test_an_epsilon_stated_one_ulp_lower_is_no_lie(audit, write):
    """Another machine's logarithm may round differently; one part in 10⁶ is no rounding."""

    def lower(share):
        def change(fields):
            epsilon = fields["guarantee"]["epsilon"]
            fields["guarantee"]["epsilon"] = min(epsilon * share, math.nextafter(epsilon, 0))

        return change

    randomizer = Randomizer.calibrate(ONE, 1.0, report="split")
    code, out, err = audit(write(randomizer, lower(1.0)), f"--draws 1000 {SURE}")
    assert (code, err) == (0, "")
    assert "REFUTED" not in out
    assert audit(write(randomizer, lower(1 - 1e-6)), "--draws 1000")[0] in (1, 2)


def test_json(audit, write):
    code, out, _ = audit(
        write(Randomizer.calibrate(TWO, 2.0, report="split")), f"--draws 20000 {SURE} --json"
    )
    fields = json.loads(out)
    assert code == 0
    assert fields["refuted"] is False
    assert fields["promised"] == fields["implied"]
    assert [column["column"] for column in fields["columns"]] == ["age", "sex"]
    for column in fields["columns"]:  # above 1 once in 10⁶; near .85, and .7 is ten deviations off
        assert 0.7 < column["epsilon_lower"] <= column["epsilon"] <= 1
        assert column["num_tested"] >= 10_000
    assert any(
        test["question"].startswith("age: reports have the distribution")
        for test in fields["tests"]
    )
    assert not any(test["refuted"] for test in fields["tests"])


@pytest.mark.parametrize("schema", [ONE, TWO], ids=["one column", "two columns"])
@pytest.mark.parametrize("json_flag", ["", " --json"])
def test_half_the_noise_behind_a_fitting_fingerprint_is_caught(audit, write, schema, json_flag):
    """Refuted with exit code 1, or refused as altered with exit code 2."""
    path = write(Randomizer.calibrate(schema, 1.0, mechanism="laplace"), halve_the_scale)
    code, out, err = audit(path, f"--draws 100000 {SURE}{json_flag}")
    assert code in (1, 2)
    if code == 2:
        assert err.startswith("privot: ")
        assert err.count("\n") == 1
    elif json_flag:
        assert json.loads(out)["refuted"] is True
    else:
        assert out.splitlines()[-1].endswith("REFUTED")


@pytest.mark.parametrize(
    ("content", "message"),
    [("not json", "not readable"), (None, "cannot be read")],
    ids=["damaged", "missing"],
)
def test_unusable_files_are_refused_in_one_line(audit, tmp_path, content, message):
    path = tmp_path / "randomizer.json"
    if content is not None:
        path.write_text(content)
    code, out, err = audit(path)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_an_altered_file_is_refused(audit, tmp_path):
    path = tmp_path / "randomizer.json"
    path.write_text(
        Randomizer.calibrate(ONE, 1.0, report="split").to_json().replace('"age"', '"AGE"')
    )
    code, _, err = audit(path)
    assert code == 2
    assert "altered" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--draws 5", "num_draws is 5: give at least 100"),
        ("--draws 0", "num_draws is 0: give at least 100"),
        ("--draws -7", "num_draws is -7: give at least 100"),
        ("--confidence 2", "confidence is 2.0: give a number between 0 and 1"),
        ("--confidence 1", "confidence is 1.0: give a number between 0 and 1"),
        ("--confidence 0", "confidence is 0.0: give a number between 0 and 1"),
        ("--confidence nan", "confidence is nan: give a number between 0 and 1"),
    ],
)
def test_refused_settings(audit, write, arguments, message):
    code, _, err = audit(write(Randomizer.calibrate(ONE, 1.0, report="split")), arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1

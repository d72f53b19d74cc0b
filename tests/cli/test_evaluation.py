"""Verdicts at the prompt: by reports alone, after a fit and later; against real records; as JSON."""

import json
import re

import numpy as np
import pytest

from commands import privot

SCHEMA = """
[columns.color]
kind = "categorical"
categories = ["red", "blue"]
[columns.size]
kind = "numeric"
bounds = [0, 10]
bins = 4
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A folder with a fitted model of a table, and what the fit printed."""
    folder = tmp_path_factory.mktemp("table")
    size = np.random.default_rng(0).uniform(0, 10, 2000)
    rows = [f"{'red' if s > 5 else 'blue'},{s:.2f}" for s in size]
    (folder / "people.csv").write_text("color,size\n" + "\n".join(rows) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    for line in (
        "calibrate schema.toml --epsilon 4 -o randomizer.json",
        "privatize people.csv -r randomizer.json -o release.parquet",
        "fit release.parquet -o model",
    ):
        done = privot(folder, *line.split())
        assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_a_fit_says_what_its_model_is_for(table):
    _, printed = table
    assert "verdict, by the reports alone:" in printed
    (line,) = (line for line in printed.splitlines() if "single columns" in line)
    assert line.split()[0] in ("good", "fair")
    assert "of 2 within 2.0 %" in line
    assert "error to expect" in line


def test_check_says_the_same_again(table):
    folder, _ = table
    assert "What this model may be used for" in (folder / "model" / "report.html").read_text()
    asked = ["check", "model", "release.parquet", "--target", "color"]
    done = privot(folder, *asked, "-o", "check.html")
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if "predicting color" in line)
    found = re.search(r"synthetic records has AUC (\S+) on people \((\S+) to (\S+)\)", line)
    auc, low, high = (float(number) for number in found.groups())
    # By the devices' noise, 120 releases: low .97 ± .02, auc .996 ± .005; without the pair near .5.
    assert 0.75 < low <= auc <= high <= 1
    assert auc > 0.95
    assert "check.html: written" in done.stdout
    assert (folder / "check.html").exists()
    assert done.stdout.startswith("model: checked by 2,000 reports, ε = 4 (pure), local, per")
    assert "single columns" in done.stdout
    told = json.loads(privot(folder, "check", "model", "release.parquet", "--json").stdout)
    assert told["verdict"][0]["topic"] == "single columns"
    assert told["columns"][1]["number"]["mean"]["reports"]["low"] < 5


def test_a_fit_refuses_a_target_that_no_check_tells(table):
    folder, _ = table
    done = privot(folder, "fit", "release.parquet", "-o", "other", "--target", "town")
    assert done.returncode == 2
    assert "target 'town' is none of ['color', 'size']" in done.stderr
    done = privot(
        folder, *["fit", "release.parquet", "-o", "other", "--target", "color", "--no-check"]
    )
    assert "leave out --no-check, or --target" in done.stderr


def test_check_refuses_what_has_no_reports(table, whole):
    folder, _ = table
    done = privot(folder, "check", "model", "people.csv")
    assert done.returncode == 2
    done = privot(whole, "check", "model", "release.parquet")
    assert done.returncode == 2
    assert "only a model of a table" in done.stderr


def test_evaluate_as_json(whole):
    done = privot(whole, "evaluate", "model", "--against", "people.csv", "-o", "r.html", "--json")
    told = json.loads(done.stdout)
    assert set(told["summary"]) == {"one_way", "two_way", "cramers_v", "ks"}
    assert told["vectors"] == []
    assert "not private" in done.stderr


def test_a_poor_verdict_ends_with_a_code_of_its_own_if_asked(table, tmp_path):
    folder, _ = table
    (folder / "others.csv").write_text("color,size\n" + "red,1\n" * 600)
    asked = ["evaluate", "model", "-n", "2000", "-o", tmp_path / "page.html", "--force"]
    assert privot(folder, *asked, "--against", "others.csv").returncode == 0
    done = privot(folder, *asked, "--against", "others.csv", "--fail-on", "poor", "--json")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("privot: verdict: single columns poor")
    assert json.loads(done.stdout)["verdict"]
    assert (tmp_path / "page.html").exists()
    assert privot(folder, *asked, "--against", "people.csv", "--fail-on", "poor").returncode == 0
    done = privot(folder, *asked, "--against", "people.csv", "--fail-on", "bad")
    assert done.returncode == 2
    assert "--fail-on is 'bad': choose one of poor, fair" in done.stderr

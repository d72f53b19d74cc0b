"""`privot integral`: from a CSV to a budget that ends, and refusals before anything is spent."""

import json
import re
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from commands import privot

SCHEMA = """
[columns.height]
kind = "numeric"
bounds = [0, 10]
"""


def integral(folder, *arguments):
    return privot(folder, "integral", *arguments, PRIVOT_STATE_DIR=folder / "state")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("integral")
    heights = np.random.default_rng(0).normal(3.0, 0.8, 500).clip(0, 10)
    (folder / "people.csv").write_text("height\n" + "\n".join(f"{h:.4f}" for h in heights) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    done = integral(folder, "fit", "people.csv", "--schema", "schema.toml",
        "--epsilon", 1, "--draws", 50, "-o", "secret/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "secret: 50 draws at ε = 0.02 each, together ε = 1 (integral), any, per person\n"
    )
    assert "keep this folder secret" in done.stderr
    return folder


def test_the_budget_ends(folder):
    done = integral(folder, "sample", "secret/", "-n", 10, "-o", "draws.csv")
    assert done.returncode == 0, done.stderr
    assert "10 draws, 40 of 50 left" in done.stdout
    assert len((folder / "draws.csv").read_text().splitlines()) == 11
    again = integral(folder, "sample", "secret/", "-n", 1, "-o", "draws.csv")
    assert again.returncode == 2
    assert "draws.csv exists: give another -o" in again.stderr
    beyond = integral(folder, "sample", "secret/", "-n", 41, "-o", "more.csv")
    assert beyond.returncode == 2
    assert "ask for at most 40" in beyond.stderr
    assert not (folder / "more.csv").exists()
    fixed = integral(
        folder, "sample", "secret/", "-n", 40, "--shortfall", 1e-6, "-o", "more.parquet"
    )
    assert "0 of 50 left" in fixed.stdout, fixed.stderr
    entries = json.loads((folder / "secret" / "ledger.json").read_text())["entries"]
    assert [entry["uses"] for entry in entries] == [0, 10, 40]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "nowhere/", "-o", "a.csv"], "cannot be read"),
        (["sample", "secret/", "-o", "a.xlsx"], "unknown format"),
        (["sample", "secret/", "-o", "no/such/a.csv"], "is no folder"),
        (
            ["fit", "people.csv", "--schema", "schema.toml", "--draws", 5, "-o", "other"],
            "give either epsilon",
        ),
        (
            ["fit", "people.csv", "--schema", "schema.toml", "--draws", 5, "--epsilon", 1,
             "-o", "secret"],
            "never overwritten",
        ),
        (
            ["fit", "people.csv", "--schema", "schema.toml", "--draws", 5, "--epsilon", 1,
             "--method", "mcmc", "-o", "other"],
            "choose clip or boost",
        ),
        (
            ["fit", "people.csv", "--schema", "schema.toml", "--draws", 1, "--epsilon", 500,
             "-o", "other"],
            "proposals",
        ),
    ],
)  # fmt: skip
def test_refusals_are_one_line(folder, arguments, message):
    before = sorted(path.name for path in folder.iterdir())
    done = integral(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == before


def test_the_gain_is_for_the_curator_alone(folder):
    """On standard error; neither standard output nor any file of text has them."""
    pytest.importorskip("sklearn")
    fit = ["fit", "people.csv", "--schema", "schema.toml", "--epsilon", 8, "--draws", 2]
    boost = ["--method", "boost", "--estimator", "trees", "-o", "boosted"]
    own = {"PRIVOT_STATE_DIR": folder / "boosting"}
    done = privot(folder, "integral", *fit, *boost, **own)
    assert done.returncode == 0, done.stderr
    assert "confidential" in done.stderr
    (gain,) = re.findall(r"at least (\S+) nats", done.stderr)
    assert 0 < float(gain) < 2
    assert done.stdout == (
        "boosted: 2 draws at ε = 4 each, together ε = 8 (integral), any, per person\n"
    )
    for name in ("model.json", "ledger.json"):
        text = (folder / "boosted" / name).read_text()
        assert gain not in text
    privot(folder, "integral", "sample", "boosted", "-n", 2, "-o", "boosted.parquet", **own)
    drawn = pq.read_table(folder / "boosted.parquet")
    assert drawn.column_names == ["height"]
    assert not {key for key in drawn.schema.metadata or {} if key != b"ARROW:schema"}


def test_a_moved_folder_is_adopted_once(folder):
    refused = privot(
        folder, "account", "spent", "--adopt", "secret/", PRIVOT_STATE_DIR=folder / "state"
    )
    assert "already known to this account" in refused.stderr
    shutil.copytree(folder / "secret", folder / "moved")
    elsewhere = {"PRIVOT_STATE_DIR": folder / "elsewhere"}
    refused = privot(folder, "integral", "sample", "moved/", "-o", "a.csv", **elsewhere)
    assert refused.returncode == 2
    assert "say `privot account spent --adopt`" in refused.stderr
    done = privot(folder, "account", "spent", "--adopt", "moved/", **elsewhere)
    assert done.returncode == 0, done.stderr
    again = privot(folder, "integral", "sample", "moved/", "-n", 51, "-o", "a.csv", **elsewhere)
    assert "draws" in again.stderr
    assert not (folder / "a.csv").exists()


def test_a_second_fit_is_told_to_the_curator_alone(folder):
    fit = ["fit", "people.csv", "--schema", "schema.toml", "--epsilon", 0.5, "--draws", 5]
    done = integral(folder, *fit, "-o", "second")
    assert done.returncode == 0, done.stderr
    told = "2 runs, together ε = 1.5 (integral), any, per person"
    assert told in done.stderr
    assert told not in done.stdout
    written = "".join(file.read_text(errors="replace") for file in (folder / "second").iterdir())
    (digest,) = (file.stem for file in (folder / "state" / "accounts").iterdir())
    assert "together" not in written
    assert digest not in written
    spent = privot(folder, "account", "spent", PRIVOT_STATE_DIR=folder / "state")
    assert told in spent.stdout
    assert "5 draws declared: ε = 0.5" in spent.stdout


def test_the_common_sample_command_spends_nothing(folder):
    before = (folder / "secret" / "ledger.json").read_text()
    done = privot(folder, "sample", "secret", "-n", 5, "-o", "a.csv")
    assert done.returncode == 2
    assert "privot integral sample secret" in done.stderr
    assert (folder / "secret" / "ledger.json").read_text() == before

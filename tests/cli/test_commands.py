"""The six commands on a CSV of one's own, and every refusal: one line, exit code 2, nothing written."""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from commands import privot

SCHEMA = """
[columns.height]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        f"{h:.3f},{c}" for h, c in zip(rng.uniform(0, 10, 400), rng.choice(["red", "blue"], 400))
    ]
    (tmp_path / "people.csv").write_text("height,color\n" + "\n".join(rows) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder in which all six commands ran."""
    folder = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(0)
    rows = [
        f"{h:.3f},{c}" for h, c in zip(rng.uniform(0, 10, 400), rng.choice(["red", "blue"], 400))
    ]
    (folder / "people.csv").write_text("height,color\n" + "\n".join(rows) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    for line in (
        "schema check schema.toml",
        "calibrate schema.toml --epsilon 4 --report split -o randomizer.json",
        "privatize people.csv --randomizer randomizer.json -o release.parquet",
        "fit release.parquet -o model/ --steps 50 --batch-size 100",
        "sample model/ --num-rows 1000 -o synthetic.parquet",
        "evaluate model/ --against people.csv -o report.html",
    ):
        done = privot(folder, *line.split())
        assert done.returncode == 0, (line, done.stderr)
    return folder


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
        "--report",
        "split",
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
    assert "height: noise of standard deviation 14.14" in words


def test_evaluate_as_json(whole):
    done = privot(whole, "evaluate", "model", "--against", "people.csv", "-o", "r.html", "--json")
    told = json.loads(done.stdout)
    assert set(told["summary"]) == {"one_way", "two_way", "cramers_v"}
    assert told["vectors"] == []
    assert "not private" in done.stderr


def test_sampling_with_a_seed_repeats(whole):
    for name in ("a.csv", "b.csv"):
        assert (
            privot(whole, "sample", "model", "-n", "50", "--seed", "3", "-o", name).returncode == 0
        )
    assert (whole / "a.csv").read_text() == (whole / "b.csv").read_text()


def test_values_outside_their_bounds_are_counted_for_the_device_only(folder):
    with open(folder / "people.csv", "a") as file:
        file.write("99,red\n-5,blue\n")
    privot(folder, "calibrate", "schema.toml", "--epsilon", "4")
    done = privot(folder, "privatize", "people.csv", "-r", "randomizer.json")
    assert done.returncode == 0
    assert "2 of height" in done.stderr
    assert "not private" in done.stderr
    assert "2 of height" not in done.stdout


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
        ("calibrate schema.toml --epsilon 1 --mechanism gaussian", "delta 0 cannot be had"),
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals are a matter of POSIX here")
def test_ctrl_c_saves_and_resume_finishes_with_the_same_model(whole, tmp_path):
    shutil.copy(whole / "release.parquet", tmp_path)
    steps = ["fit", "release.parquet", "--steps", "3000", "--batch-size", "50"]
    code = "from privot.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *steps],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    for line in process.stderr:
        if "step 300 " in line:
            process.send_signal(signal.SIGINT)
            break
    rest = process.stderr.read()
    assert process.wait(60) == 1
    assert "run again with --resume" in rest
    assert (tmp_path / "model.checkpoint").exists()
    assert not (tmp_path / "model").exists()
    assert "continue it with --resume" in privot(tmp_path, *steps).stderr
    done = privot(tmp_path, *steps, "--resume")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "model.checkpoint").exists()
    assert privot(tmp_path, *steps, "-o", "again").returncode == 0
    files = [tmp_path / name / "weights.safetensors" for name in ("model", "again")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_help_names_an_example_for_every_command(folder):
    for command in ("demo", "calibrate", "privatize", "fit", "sample", "evaluate"):
        done = privot(folder, command, "--help")
        assert done.returncode == 0
        assert "Example: privot" in done.stdout


def test_demo_writes_its_report_and_its_metrics(folder):
    done = privot(folder, "demo", "--people", "3000", "--steps", "40", "-o", "out")
    assert done.returncode == 0, done.stderr
    metrics = json.loads((folder / "out" / "metrics.json").read_text())
    for key in (
        "epsilon", "num_people", "w2_learned", "w2_released", "w2_released_raw", "w2_floor",
        "train_seconds", "peak_memory_mb",
    ):  # fmt: skip
        assert metrics[key] > 0
    assert metrics["w2_floor"] < metrics["w2_released"] < metrics["w2_released_raw"]
    assert "e^4" in (folder / "out" / "report.html").read_text()

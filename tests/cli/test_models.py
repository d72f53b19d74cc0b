"""Fit and sample at the prompt: Ctrl-C and --resume, a seed."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from commands import privot


def test_sampling_with_a_seed_repeats(whole):
    for name in ("a.csv", "b.csv"):
        assert (
            privot(whole, "sample", "model", "-n", "50", "--seed", "3", "-o", name).returncode == 0
        )
    assert (whole / "a.csv").read_text() == (whole / "b.csv").read_text()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals are a matter of POSIX here")
def test_ctrl_c_leaves_a_model_and_resume_finishes_with_the_same_one(whole, tmp_path):
    shutil.copy(whole / "release.parquet", tmp_path)
    steps = ["fit", "release.parquet", "--steps", "400", "--batch-size", "50"]
    code = "from privot.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *steps],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    for line in process.stderr:
        if "step 40 " in line:
            process.send_signal(signal.SIGINT)
            break
    rest = process.stderr.read()
    assert process.wait(60) == 1
    assert "run again with --resume" in rest
    assert (tmp_path / "model.checkpoint").exists()
    told = json.loads((tmp_path / "model" / "model.json").read_text())["made_with"]
    assert told["steps"] < 400
    assert privot(tmp_path, "sample", "model", "-n", "5").returncode == 0
    assert "continue it with --resume" in privot(tmp_path, *steps).stderr
    done = privot(tmp_path, *steps, "--resume")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "model.checkpoint").exists()
    assert privot(tmp_path, *steps, "-o", "again").returncode == 0
    files = [tmp_path / name / "weights.safetensors" for name in ("model", "again")]
    assert files[0].read_bytes() == files[1].read_bytes()

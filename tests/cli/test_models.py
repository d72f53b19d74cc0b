"""Fit and sample at the prompt: Ctrl-C and --resume, a seed."""

import json
import shutil
import signal
from contextlib import contextmanager
from functools import partial

import pytest

from commands import privot
from privot.cli.console import training_bar


def test_sampling_with_a_seed_repeats(whole):
    for name in ("a.csv", "b.csv"):
        assert (
            privot(whole, "sample", "model", "-n", "50", "--seed", "3", "-o", name).returncode == 0
        )
    assert (whole / "a.csv").read_text() == (whole / "b.csv").read_text()


@contextmanager
def stopping_bar(step, **how):
    """The progress that commands show, and Ctrl-C after a step."""
    with training_bar(**how) as advance:

        def advance_and_stop(done, steps, loss):
            advance(done, steps, loss)
            if done == step:
                signal.raise_signal(signal.SIGINT)

        yield advance_and_stop


def test_ctrl_c_leaves_a_model_and_resume_finishes_with_the_same_one(whole, tmp_path):
    shutil.copy(whole / "release.parquet", tmp_path)
    steps = ["fit", "release.parquet", "--steps", "60", "--batch-size", "50"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privot.cli.console.training_bar", partial(stopping_bar, 20))
        stopped = privot(tmp_path, *steps)
    assert stopped.returncode == 1
    assert "run again with --resume" in stopped.stderr
    assert (tmp_path / "model.checkpoint").exists()
    told = json.loads((tmp_path / "model" / "model.json").read_text())["made_with"]
    assert told["steps"] < 60
    assert privot(tmp_path, "sample", "model", "-n", "5").returncode == 0
    assert "continue it with --resume" in privot(tmp_path, *steps).stderr
    done = privot(tmp_path, *steps, "--resume")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "model.checkpoint").exists()
    assert privot(tmp_path, *steps, "-o", "again").returncode == 0
    files = [tmp_path / name / "weights.safetensors" for name in ("model", "again")]
    assert files[0].read_bytes() == files[1].read_bytes()

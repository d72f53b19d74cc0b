"""`kill -9` at random moments of fit and sample: what was there stays, and the end is the same."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from privot import FitSettings, Randomizer, Release, Schema, fit, load

SCHEMA = Schema.from_toml('[columns.height]\nkind = "numeric"\nbounds = [0, 10]')
SETTINGS = FitSettings(estimator="generator", steps=400, batch_size=50, hidden=(16,), seed=2)
FIT = """
import sys
import torch
from privot import models
torch.set_num_threads(1)
models._SECONDS_BETWEEN_SAVES = 0.0  # as often as a run of days has them
sys.argv = ["privot", "fit", "release.parquet", "-o", "model", "--resume", *sys.argv[1:]]
from privot.cli import main
main()
"""


@pytest.fixture
def folder(tmp_path):
    Randomizer.calibrate(SCHEMA, 4.0, mechanism="laplace").privatize(
        {"height": [2.0, 7.0] * 500}
    ).save(tmp_path / "release.parquet")
    return tmp_path


def killed(command, folder, ready, delay):
    """Start a process, kill it `delay` seconds after it is ready; whether it lived until then."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as running:
        while not ready() and running.poll() is None:
            time.sleep(0.002)
        time.sleep(delay)
        lived = running.poll() is None
        running.kill()
        assert lived or running.returncode == 0, running.stderr.read()
    return lived


@pytest.mark.slow
def test_a_fit_killed_at_random_ends_as_if_nothing_had_happened(folder):
    settings = FitSettings(estimator="generator", steps=400, batch_size=50, seed=2)
    whole = fit(Release.load(folder / "release.parquet"), settings)
    command = [sys.executable, "-c", FIT, "--steps", "400", "--batch-size", "50", "--seed", "2"]
    command += ["--estimator", "generator"]
    checkpoint, chance = folder / "model.checkpoint", random.Random(0)
    for _ in range(3):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        killed(
            command,
            folder,
            lambda before=before: checkpoint.exists() and checkpoint.stat().st_mtime_ns > before,
            chance.random() * 0.3,
        )
        assert checkpoint.exists() or (folder / "model").exists()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    again = load(folder / "model")
    for name, weight in whole.sampler.generator.state_dict().items():
        assert torch.equal(weight, again.sampler.generator.state_dict()[name])
    assert not checkpoint.exists()


@pytest.mark.slow
def test_a_killed_sample_leaves_the_old_file(folder):
    fit(Release.load(folder / "release.parquet"), SETTINGS).save(folder / "model")
    output = folder / "synthetic.parquet"
    output.write_bytes(b"precious")
    sample = [sys.executable, "-m", "privot", "sample", "model", "--seed", "1"]
    sample += ["-o", output.name, "--force"]
    chance = random.Random(1)

    def drafted():
        return any(Path(folder).glob(".synthetic.parquet.*.draft"))

    for _ in range(2):
        assert killed([*sample, "-n", "100000000"], folder, drafted, chance.random() * 0.2)
        assert output.read_bytes() == b"precious"
        for draft in folder.glob(".*.draft"):
            draft.unlink()
    assert subprocess.run([*sample, "-n", "150000"], cwd=folder).returncode == 0
    whole = load(folder / "model").sample(150_000, seed=1)
    assert pq.read_table(output).equals(whole)
    assert sorted(os.listdir(folder)) == ["model", "release.parquet", "synthetic.parquet"]

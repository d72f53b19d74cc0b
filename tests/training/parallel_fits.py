"""What torchrun runs in several processes: fits by every loss, saved by the first of them."""

import atexit
import sys
import time
from pathlib import Path

import torch

from privot import FitSettings, Randomizer, Release, Schema, fit
from privot.core.processes import is_first

MIXED = Schema.from_toml("""
[columns.height]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
""")
LOSSES = ("plain", "self_corrected", "likelihood")


def settings(loss):
    return FitSettings(
        estimator="generator", loss=loss, steps=25, batch_size=60, hidden=(16,), seed=5
    )


def fits(folder):
    """Models by loss, from the releases in a folder."""
    torch.set_num_threads(1)
    for loss in LOSSES:
        name = "joint" if loss == "likelihood" else "split"
        yield loss, fit(Release.load(Path(folder) / f"{name}.parquet"), settings(loss))


def write_releases(folder):
    table = {"height": [2.0, 7.0, 7.5] * 300, "color": ["red", "blue", "green"] * 300}
    for report in ("split", "joint"):
        Randomizer.calibrate(MIXED, 4.0, report=report).privatize(table).save(
            Path(folder) / f"{report}.parquet"
        )


def say_when_left():
    """The first process saves for two seconds; the others' connections are closed when?"""
    if is_first():
        time.sleep(2)
        print(f"saved {time.time()}", flush=True)
    else:
        atexit._run_exitfuncs()
        print(f"left {time.time()}", flush=True)


if __name__ == "__main__":
    for loss, model in fits(sys.argv[1]):
        if is_first():
            model.save(Path(sys.argv[1]) / f"{loss}.{sys.argv[2]}")
    say_when_left()

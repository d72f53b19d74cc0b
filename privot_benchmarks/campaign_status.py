"""How long `privot campaign status` takes, of a campaign with many reports.

    python privot_benchmarks/campaign_status.py   # the campaign of docs/guides/campaign.md, 10⁶ reports

A campaign is made, people who are made up report, and the command runs in a process of its own, as a
user starts it: imports and a compiler's cache are part of its time. `--profile` runs it in this process.
"""

import argparse
import cProfile
import json
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from privot.campaign import CampaignFolder, create, write_status
from privot.randomizer import Randomizer, Release
from privot.schema import Schema

SCHEMA = Path(__file__).parents[1] / "examples" / "web" / "commute.toml"


def made(folder: Path, people: int) -> tuple[CampaignFolder, Path]:
    """A campaign, and a file with so many reports of it."""
    randomizer = Randomizer.calibrate(Schema.load(SCHEMA), 4.0)
    campaign = create(randomizer, folder / "campaign", title="?", collector="http://127.0.0.1:8000")
    rng = np.random.default_rng(0)
    ways = np.array(["on foot", "bicycle", "bus or train", "car"])
    answers = {
        "age": rng.integers(16, 81, people),
        "travel": ways[rng.choice(4, people, p=[0.1, 0.2, 0.3, 0.4])],
        "minutes": rng.gamma(3.0, 10.0, people).clip(0, 120),
    }
    release = folder / "release.parquet"
    randomizer.privatize(answers).save(release)
    return campaign, release


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--people", type=int, default=1_000_000)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--profile", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as home:
        campaign, release = made(Path(home), given.people)
        command = [sys.executable, "-m", "privot", "campaign", "status", str(campaign.folder)]
        seconds = []
        for _ in range(given.runs):
            began = time.perf_counter()
            subprocess.run([*command, "--release", str(release)], check=True)
            seconds.append(round(time.perf_counter() - began, 2))
        print(json.dumps({"people": given.people, "seconds": seconds}))
        if given.profile:
            with cProfile.Profile() as profile:
                write_status(campaign, Release.open(release))
            pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()

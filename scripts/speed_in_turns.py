"""Measure the CPU seconds of this checkout beside those of another commit, in turns.

    python scripts/speed_in_turns.py             # beside the last commit of the old layout
    python scripts/speed_in_turns.py --before main~5 --turns 7 --works solver

Each work runs in a process of its own, once to compile loops and five times more, of which the fastest
counts. The commits take turns, so that a busy machine slows both. Works use names that both have.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
SETUP = """import pathlib, tempfile, time, timeit, numpy as np, privot
rng, n = np.random.default_rng(0), int(NUMBER)
place = {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 1]]}
table = {"age": {"kind": "numeric", "bounds": [17, 90]}, "works": {"kind": "boolean"}}
table["sex"] = {"kind": "categorical", "categories": ["f", "m"]}
homes = {"x": rng.random(n) ** 2, "y": rng.random(n)}
people = {"age": rng.uniform(17, 90, n), "works": rng.random(n) < 0.5}
people["sex"] = rng.choice(["f", "m"], n)
of = lambda c: privot.Randomizer.calibrate(privot.Schema.from_dict({"columns": c}), 4.0)
"""
TIMED = "\nprint(min(timeit.repeat(work, timer=time.process_time, repeat=6, number=1)[1:]))"
FIT = "\nwork = lambda: privot.fit(release, seed=0)"
SOLVER = """import torch
from privot.transport import Problem, SinkhornSolver
cost = torch.cdist(*torch.rand(2, n, 8, generator=torch.Generator().manual_seed(0)))
work = lambda: SinkhornSolver(tolerance=1e-4).solve(Problem(cost, reg=0.05))"""
COLLECTOR = """from privot.collector.arrivals import Campaign
from privot.collector.folder import FolderStore
from privot.device import Device, write_batch
folder = pathlib.Path(tempfile.mkdtemp())
of({"works": table["works"]}).save(rule := folder / "rule.json")
campaign, device = Campaign.load(rule), Device.from_json(rule.read_text())
reports = [device.report({"works": True}).to_bytes() for _ in range(n)]
bodies, names = [write_batch(reports[at : at + 1000]) for at in range(0, n, 1000)], iter("abcdef")
def work():
    store = FolderStore(folder / next(names), getattr(campaign, "format", None) or campaign.example)
    for batch in (campaign.read(body, False) for body in bodies):
        given = [batch.entries] if hasattr(batch, "entries") else []  # which the old store takes too
        store.append(batch.records, *given)"""
WORKS = {  # number of records, and code that defines `work`
    "fit a map": (20_000, f"release = of({{'place': place}}).privatize(homes){FIT}"),
    "fit a table": (20_000, f"release = of(table).privatize(people){FIT}"),
    "privatize": (500_000, "rule = of(table)\nwork = lambda: rule.privatize(people)"),
    "solver": (4_000, SOLVER),
    "collector": (50_000, COLLECTOR),
}


def seconds(checkout: Path, work: str, folder: str) -> float:
    """Return the CPU seconds of one work with the library of a checkout."""
    number, code = WORKS[work]
    program = SETUP.replace("NUMBER", str(number)) + code + TIMED
    own = {"PYTHONPATH": f"{checkout}/src", "TMPDIR": folder, "PRIVOT_STATE_DIR": folder}
    command = [sys.executable, "-W", "ignore", "-c", program]
    return float(subprocess.check_output(command, env=os.environ | own).split()[-1])


options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("--before", default="b9dcd134", help="commit to compare with")
options.add_argument("--turns", type=int, default=5)
options.add_argument("--works", nargs="+", choices=WORKS, default=[*WORKS])
given, git = options.parse_args(), ["git", "-C", str(ROOT), "worktree"]
with tempfile.TemporaryDirectory() as folder:
    other = Path(folder) / "before"
    subprocess.check_call([*git, "add", "-q", "--detach", str(other), given.before])
    try:
        for work in given.works:
            turns = [[seconds(x, work, folder) for x in (other, ROOT)] for _ in range(given.turns)]
            for name, choose in (("best", min), ("median", median)):
                old, new = map(choose, zip(*turns, strict=True))
                print(f"{work:12} {name:7} {old:8.3f} s {new:8.3f} s   ratio {new / old:.3f}")
    finally:
        subprocess.check_call([*git, "remove", "--force", str(other)])

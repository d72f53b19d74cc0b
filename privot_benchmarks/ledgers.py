"""How many releases and draws come out when a budget is overspent by accident, in every way we know.

    python privot_benchmarks/ledgers.py   # a table, and exit code 1 if more came out than declared
    python privot_benchmarks/ledgers.py --kills 20

Counts are of releases that left the mechanism and draws that left the model; state goes to a folder of
its own. `tests/attacks/test_ledgers.py` runs the same attacks.
"""

import argparse
import copy
import ctypes
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from privot import integral
from privot.central import SliceSettings, fit
from privot.central.records import records_of
from privot.central.slices import SlicePlan, SlicingMechanism, accounted_grid
from privot.core.errors import PrivotError
from privot.integral import PointSpace
from privot.integral.references import UniformBox
from privot.privacy.ledger import Ledger, accounts
from privot.schema import Schema
from privot.schema.columns.array import tensor_array
from privot.training import Interrupted

RELEASES, STEPS, DRAWS, KILLS = 70, 70, 60, 100
SCHEMA = Schema.from_dict(
    {"columns": {"image": {"kind": "array", "shape": [4, 4], "bounds": [0, 1]}}}
)
IMAGES = records_of(SCHEMA, low_pass=2)
VALUES = torch.from_numpy(np.random.default_rng(0).random((200, 4, 4), dtype=np.float32))
TABLE = pa.table({"image": tensor_array(VALUES.numpy())})
QUICK = {"batch_size": 20, "num_projections": 4, "low_pass": 2, "generated": 20, "hidden": (4,)}
NUMBERS = np.random.default_rng(0).random((200, 1))
fork_in_c = ctypes.PyDLL(None).fork  # none of Python's hooks run


@dataclass(frozen=True)
class Settings(SliceSettings):
    """A plan whose noise nobody calibrated: counted is how often, not how much."""

    def plan(self, epsilon, delta, count, records):
        return plan(self.steps)


def plan(steps=None):
    return _plan(steps or RELEASES)


@cache
def _plan(steps):
    grid = 2.0**-18
    settings = SliceSettings(batch_size=20, num_projections=4, low_pass=2)
    accounting = settings.accounting(len(VALUES), IMAGES, accounted_grid(grid, 1000))
    return SlicePlan(accounting, 1.0, steps, 1e-3, grid)


def mechanism(path=None, **more):
    return SlicingMechanism(VALUES, None, IMAGES, Ledger(plan(), path, **more))


def unsaved(draws=None):
    draws = draws or DRAWS
    space = PointSpace(UniformBox([0], [1]), "person")
    return integral.fit(NUMBERS, space, epsilon=2.0 * draws, draws=draws)


def drain(use, told=lambda: None):
    """How often `use` works."""
    made = 0
    with suppress(PrivotError):
        while True:
            use()
            told()
            made += 1
    return made


def drain_folder(folder):
    try:
        return drain(partial(integral.IntegralModel.load(folder).sample, 1))
    except PrivotError:
        return 0


@contextmanager
def in_child(action, fork=os.fork):
    """Run `action` in a forked process; yields where its number will be."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        made = 0
        try:
            made = action()
        finally:
            os.write(writer, str(made).encode())
            os._exit(0)
    os.close(writer)
    made = []
    yield made
    with os.fdopen(reader) as pipe:
        made.append(int(pipe.read()))
    os.waitpid(child, 0)


def beside_a_child(action, fork=os.fork):
    """What `action` makes here and, from the same state, in a child."""
    with in_child(action, fork) as made:
        mine = action()
    return mine + made[0]


def in_processes(count, action):
    if not count:
        return 0
    with in_child(action) as made:
        others = in_processes(count - 1, action)
    return others + made[0]


def in_threads(count, action):
    made, start = [], threading.Barrier(count)

    def work():
        start.wait()
        made.append(action())

    threads = [threading.Thread(target=work) for _ in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return sum(made)


def killed(kills, action, folder, most):
    """What comes out of `action`, started again and again and killed at random moments, and once not.

    A moment comes after so many releases of the process, `most` at most; after none, while it starts.
    """
    told, chance = folder / "told", random.Random(0)
    told.touch()

    def run():
        handle = os.open(told, os.O_WRONLY | os.O_APPEND)
        action(partial(os.write, handle, b"x"))
        os.close(handle)

    for _ in range(kills):
        enough = told.stat().st_size + chance.randint(0, most)
        child = os.fork()
        if child == 0:
            run()
            os._exit(0)
        ended = False
        while told.stat().st_size < enough and not ended:
            time.sleep(0.0005)
            ended = os.waitpid(child, os.WNOHANG)[0] == child
        if not ended:
            time.sleep(chance.uniform(0, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    run()
    return told.stat().st_size


class Run:
    """A fit with a checkpoint, which is stopped, resumed and copied; counts its releases."""

    def __init__(self, folder):
        self.folder, self.made, self.model = folder, 0, None

    def fit(self, stop=None, resume=False, folder=None):
        """Fit until a step, or to the end; whether it was refused."""

        def progress(step, steps, loss):
            self.made += 1
            if step == stop:
                signal.raise_signal(signal.SIGINT)

        settings = Settings(steps=STEPS, **QUICK)
        path = (folder or self.folder) / "run"
        try:
            self.model = fit(
                TABLE,
                SCHEMA,
                epsilon=1.0,
                method=settings,
                checkpoint=path,
                resume=resume,
                progress=progress,
            )
        except (Interrupted, PrivotError):
            return False
        return True


def sliced_older_ledger(folder, _):
    run = Run(folder)
    run.fit(stop=STEPS * 2 // 7)
    shutil.copy(folder / "run.ledger", folder / "old")
    run.fit(stop=STEPS * 6 // 7, resume=True)
    shutil.copy(folder / "old", folder / "run.ledger")
    run.fit(resume=True)
    return run.made, STEPS


def sliced_copied_folder(folder, _):
    run = Run(folder / "one")
    run.folder.mkdir()
    run.fit(stop=STEPS * 3 // 7)
    shutil.copytree(run.folder, folder / "two")
    run.fit(resume=True)
    run.fit(resume=True, folder=folder / "two")
    return run.made, STEPS


def sliced_resume_after_the_end(folder, _):
    run = Run(folder)
    run.fit()
    first = run.model
    (folder / "run").unlink(missing_ok=True)  # as the command does once the model is saved
    assert not run.fit(resume=True)
    assert run.model is first
    return run.made, STEPS


def sliced_refit_beside_a_deleted_ledger(folder, _):
    run = Run(folder)
    run.fit()
    for file in ("run", "run.ledger"):
        (folder / file).unlink(missing_ok=True)
    run.fit()
    seen = {account.digest: account for account in accounts()}
    (mine,) = [a for a in seen.values() if len(a.runs) == 2 and a.runs[0].uses.endswith("releases")]
    assert mine.sums[0].guarantee.epsilon >= 2 * plan(STEPS).guarantee.epsilon
    return run.made, STEPS * len(mine.runs)


def sliced_duplicate(duplicate, folder, _):
    mine = mechanism()
    mine.release()
    made = 1
    with suppress(PrivotError):
        made += drain(duplicate(mine).release)
    return made + drain(mine.release), RELEASES


def sliced_fork(fork, folder, _):
    mine = mechanism(folder / "ledger", ahead=20)
    mine.release()
    return 1 + beside_a_child(partial(drain, mine.release), fork), RELEASES


def sliced_threads(folder, _):
    mine = mechanism(folder / "ledger", ahead=20)
    return in_threads(8, partial(drain, mine.release)), RELEASES


def sliced_processes(folder, _):
    mechanism(folder / "ledger").ledger.begin()

    def drained():
        return drain(mechanism(folder / "ledger", resume=True, ahead=20).release)

    return in_processes(8, drained), RELEASES


def sliced_kills(folder, kills):
    declared = plan(40 + 30 * kills)
    Ledger(declared, folder / "ledger").begin()

    def go_on(told):
        ledger = Ledger(declared, folder / "ledger", resume=True, ahead=20)
        drain(SlicingMechanism(VALUES, None, IMAGES, ledger).release, told)

    return killed(kills, go_on, folder, 40), declared.uses


def integral_rolled_back(folder, _):
    model = unsaved()
    model.save(folder / "a")
    shutil.copytree(folder / "a", folder / "old")
    made = len(model.sample(DRAWS // 2))
    shutil.rmtree(folder / "a")
    shutil.copytree(folder / "old", folder / "a")
    return made + drain_folder(folder / "a"), DRAWS


def integral_copied_folder(folder, _):
    unsaved().save(folder / "a")
    shutil.copytree(folder / "a", folder / "b")
    return drain_folder(folder / "a") + drain_folder(folder / "b"), DRAWS


def integral_duplicate(duplicate, folder, _):
    model = unsaved()
    with suppress(PrivotError):
        duplicate(model).save(folder / "copy")
    with suppress(PrivotError):
        model.save(folder / "original")
    return drain_folder(folder / "copy") + drain_folder(folder / "original"), DRAWS


def integral_fork_unsaved(fork, folder, _):
    model = unsaved()

    def save_and_draw():
        made = drain(partial(model.sample, 1))
        with suppress(PrivotError):
            model.save(folder / str(os.getpid()))
        return made + drain(partial(model.sample, 1))

    return beside_a_child(save_and_draw, fork), DRAWS


def integral_processes(folder, _):
    unsaved().save(folder / "a")
    return in_processes(8, partial(drain_folder, folder / "a")), DRAWS


def integral_threads(folder, _):
    model = unsaved()
    model.save(folder / "a")
    return in_threads(8, partial(drain, partial(model.sample, 1))), DRAWS


def integral_kills(folder, kills):
    declared = 4 + 2 * kills
    unsaved(declared).save(folder / "a")

    def go_on(told):
        drain(partial(integral.IntegralModel.load(folder / "a").sample, 1), told)

    return killed(kills, go_on, folder, 3), declared


def pickled(original):
    return pickle.loads(pickle.dumps(original))


# Every attack takes a folder and a number of kills, and gives what was made and what was declared.
ATTACKS = {
    "slices, older ledger restored": sliced_older_ledger,
    "slices, copied folder, both resumed": sliced_copied_folder,
    "slices, resumed after the end": sliced_resume_after_the_end,
    "slices, refit beside a deleted ledger (seen: two plans)": sliced_refit_beside_a_deleted_ledger,
    "slices, 8 threads": sliced_threads,
    "slices, 8 processes": sliced_processes,
    "slices, os.fork": partial(sliced_fork, os.fork),
    "slices, fork in C": partial(sliced_fork, fork_in_c),
    "slices, copy": partial(sliced_duplicate, copy.copy),
    "slices, deepcopy": partial(sliced_duplicate, copy.deepcopy),
    "slices, pickle": partial(sliced_duplicate, pickled),
    "slices, kill -9 at random moments": sliced_kills,
    "draws, folder rolled back": integral_rolled_back,
    "draws, copied folder": integral_copied_folder,
    "draws, 8 threads": integral_threads,
    "draws, 8 processes": integral_processes,
    "draws, unsaved, copy": partial(integral_duplicate, copy.copy),
    "draws, unsaved, deepcopy": partial(integral_duplicate, copy.deepcopy),
    "draws, unsaved, pickle": partial(integral_duplicate, pickled),
    "draws, unsaved, os.fork": partial(integral_fork_unsaved, os.fork),
    "draws, unsaved, fork in C": partial(integral_fork_unsaved, fork_in_c),
    "draws, kill -9 at random moments": integral_kills,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=KILLS)
    kills = parser.parse_args().kills
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    overspent = False
    print(f"| {'budget overspent by':<56} | made | declared | seconds |")
    print(f"|{'-' * 58}|-----:|---------:|--------:|", flush=True)
    for name, attack in ATTACKS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            os.environ["PRIVOT_STATE_DIR"] = str(folder / "state")
            started = time.perf_counter()
            made, declared = attack(folder, kills)
            seconds = time.perf_counter() - started
        overspent |= made > declared
        print(f"| {name:<56} | {made:4} | {declared:8} | {seconds:7.1f} |", flush=True)
    sys.exit(int(overspent))


if __name__ == "__main__":
    main()

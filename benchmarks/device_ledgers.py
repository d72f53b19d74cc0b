"""How often a device draws twice in a slot: killed at random moments, restarted, with a jumping clock.

    python benchmarks/device_ledgers.py              # a table, and exit code 1 if any slot has two draws
    python benchmarks/device_ledgers.py --kills 20

Reports are told to a file of their own after the ledger hands them out, as if they had been sent.
`tests/waves/test_ledger.py` runs the same, and shows that without a ledger second draws are found.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

from privot import PrivotError, Randomizer, Schema
from privot.device import Device
from privot.waves import DeviceLedger, Panel

KILLS = 100
SCHEMA = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
DEVICE = Device.from_json(Randomizer.calibrate(SCHEMA, epsilon=1.0).to_json())
PANEL = Panel("bits", window=3, start=0, length=3600, seed="public", waves=10**6)
WAVES = 60  # that one run goes through, if it is not killed


def kept(path):
    """A device that keeps a ledger: how it makes the report of a wave."""
    ledger = DeviceLedger(path, "me", now=-1.0)
    return partial(ledger.report, DEVICE, {"bit": True}, PANEL)


def careless(path):
    """A device that keeps nothing."""
    return partial(DEVICE.report, {"bit": True})


def run(make, told, clock):
    """A device's life: in each wave of its own that its clock shows it makes a report, and sends it."""
    handle = os.open(told, os.O_WRONLY | os.O_APPEND)
    for wave in clock:
        if PANEL.is_due("me", wave):
            with suppress(PrivotError):
                report = make(now=3600.0 * wave)
                os.write(handle, f"{wave} {report.to_bytes().hex()}\n".encode())
    os.close(handle)


def drawn(folder, kills, jumps, device=kept):
    """The draws that were sent: a set of pairs (wave, bytes), from runs that were killed.

    A run begins in the wave that was last sent, or so many waves before or after. It is killed within a
    few milliseconds after so many reports, or while it starts.
    """
    told, chance = folder / "told", random.Random(0)
    told.touch()
    for number in range(kills + 1):
        lines = told.read_text().splitlines()
        first = int(lines[-1].split()[0]) if lines else 0
        enough = len(lines) + chance.randint(0, 2)
        clock = [max(0, first + t + chance.randint(-jumps, jumps)) for t in range(WAVES)]
        child = os.fork()
        if child == 0:
            run(device(folder / "ledger"), told, clock)
            os._exit(0)
        ended = False
        while number < kills and not ended and told.read_bytes().count(b"\n") < enough:
            time.sleep(0.0005)
            ended = os.waitpid(child, os.WNOHANG)[0] == child
        if number < kills and not ended:
            time.sleep(chance.uniform(0, 0.01))
            os.kill(child, signal.SIGKILL)
        if not ended:
            os.waitpid(child, 0)
    pairs = (line.split() for line in told.read_text().splitlines())
    return {(int(wave), report) for wave, report in pairs}


def second_draws(draws):
    """How many draws there are of a wave that has one, or less than w waves from another."""
    waves = sorted(wave for wave, _ in draws)
    return sum(b - a < PANEL.window for a, b in pairwise(waves))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=KILLS)
    kills, found = parser.parse_args().kills, 0
    print("| clock | kills | draws sent | second draws within w waves |")
    print("|---|---:|---:|---:|")
    for name, jumps in (("right", 0), ("jumps by up to 5 waves, to and fro", 5)):
        with tempfile.TemporaryDirectory() as temporary:
            draws = drawn(Path(temporary), kills, jumps)
        found += second_draws(draws)
        print(f"| {name} | {kills} | {len(draws)} | {second_draws(draws)} |", flush=True)
    sys.exit(int(found > 0))


if __name__ == "__main__":
    main()

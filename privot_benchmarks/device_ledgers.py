"""How often a device draws twice in a slot: killed at random moments, restarted, with a jumping clock.

    python privot_benchmarks/device_ledgers.py   # exit code 1 if any slot has two draws
    python privot_benchmarks/device_ledgers.py --kills 20

Each report is written to a file of its own after the ledger hands it out, as if it had been sent.
`tests/waves` run the same, and show that without a ledger second draws are found.
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


def with_ledger(path):
    """A device with a ledger: how it makes the report of a wave."""
    ledger = DeviceLedger(path, "me", now=-1.0)
    return partial(ledger.report, DEVICE, {"bit": True}, PANEL)


def careless(path):
    """A device without a ledger."""
    return partial(DEVICE.report, {"bit": True})


def run(make, log, clock):
    """A device's life: in each wave that its clock shows it sends the report that is due."""
    handle = os.open(log, os.O_WRONLY | os.O_APPEND)
    for wave in clock:
        with suppress(PrivotError):
            if PANEL.is_due("me", wave):
                report = make(now=3600.0 * wave)
                # On a line of its own: a kill may cut one, and the next begins anew.
                os.write(handle, f"\n{wave} {report.to_bytes().hex()} sent\n".encode())
    os.close(handle)


def sent(log):
    """Waves and reports (bytes as text) that were sent, in order; a line that was cut was not sent."""
    lines = (line.split() for line in log.read_text().splitlines() if line.endswith(" sent"))
    return [(int(wave), made) for wave, made, _ in lines]


def drawn(folder, kills, jumps, device=with_ledger):
    """The draws that were sent: a set of pairs (wave, bytes), from runs that were killed.

    A run begins in the wave that was last sent, or so many waves before or after. It is killed within a
    few milliseconds after so many reports, or while it starts.
    """
    log, chance = folder / "sent", random.Random(0)
    log.touch()
    for number in range(kills + 1):
        before = sent(log)
        first = before[-1][0] if before else 0
        enough = len(before) + chance.randint(0, 2)
        clock = [max(0, first + t + chance.randint(-jumps, jumps)) for t in range(WAVES)]
        child = os.fork()
        if child == 0:
            run(device(folder / "ledger"), log, clock)
            os._exit(0)
        ended = False
        while number < kills and not ended and len(sent(log)) < enough:
            time.sleep(0.0005)
            ended = os.waitpid(child, os.WNOHANG)[0] == child
        if number < kills and not ended:
            time.sleep(chance.uniform(0, 0.01))
            os.kill(child, signal.SIGKILL)
        if not ended:
            os.waitpid(child, 0)
    return set(sent(log))


def second_draws(draws):
    """Number of draws in a wave that has one, or less than w waves from another."""
    waves = sorted(wave for wave, _ in draws)
    return sum(b - a < PANEL.window for a, b in pairwise(waves))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=KILLS)
    kills, found = parser.parse_args().kills, 0
    print("| clock | kills | draws sent | second draws |")
    print("|---|---:|---:|---:|")
    for clock, jumps in (("right", 0), ("jumps by up to 5 waves, to and fro", 5)):
        with tempfile.TemporaryDirectory() as temporary:
            draws = drawn(Path(temporary), kills, jumps)
        found += second_draws(draws)
        print(f"| {clock} | {kills} | {len(draws)} | {second_draws(draws)} |", flush=True)
    sys.exit(int(found > 0))


if __name__ == "__main__":
    main()

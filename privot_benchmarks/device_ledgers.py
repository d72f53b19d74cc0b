"""How often a device draws twice in a slot: killed at random moments, restarted, with a jumping clock.

    python privot_benchmarks/device_ledgers.py   # exit code 1 if any slot has two draws
    python privot_benchmarks/device_ledgers.py --kills 20

The same of a tree's answers, of which each interval has one. What is drawn is told to a file of its own
after the ledger hands it out, as if it had been sent. `tests/waves` run the same, and show that without
a ledger second draws are found.
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
from privot.waves import ChangeTree, DeviceLedger, Panel, TreeLedger

KILLS = 100
SCHEMA = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
DEVICE = Device.from_json(Randomizer.calibrate(SCHEMA, epsilon=1.0).to_json())
PANEL = Panel("bits", window=3, start=0, length=3600, seed="public", waves=10**6)
TREE = ChangeTree(waves=4000, changes=50, epsilon=1.0, seed="public")
DAYS = Panel("tree", window=4000, start=0, length=3600, seed="public", waves=4000)
TOLD = next(str(n) for n in range(1000) if TREE.level_of(str(n)) == 0)
WAVES = 60  # that one run goes through, if it is not killed


def kept(path):
    """A device that keeps a ledger: how it makes the report of a wave."""
    ledger = DeviceLedger(path, "me", now=-1.0)
    return partial(ledger.report, DEVICE, {"bit": True}, PANEL)


def careless(path):
    """A device that keeps nothing."""
    return partial(DEVICE.report, {"bit": True})


def reports(make, wave):
    """What a device sends in a wave, with the slots that it is of: its report, if one is due."""
    return [(wave, make(now=3600.0 * wave))] if PANEL.is_due("me", wave) else []


def told_bits(path):
    """A device that keeps a ledger of a tree's answers."""
    ledger = TreeLedger(DeviceLedger(path, TOLD, now=-1.0), TREE, DAYS)
    return lambda wave: ledger.tell(wave % 40 < 20, now=3600.0 * wave)


def careless_bits(path):
    """A device that keeps nothing, and begins anew with every start."""
    return told_bits(path.with_name(f"ledger-{os.getpid()}"))


def answers(make, wave):
    """What a device sends in a wave: all its answers, by their intervals."""
    return [(each.interval, each) for each in make(wave)]


def run(make, sends, told, clock):
    """A device's life: in each wave that its clock shows it sends what is due."""
    handle = os.open(told, os.O_WRONLY | os.O_APPEND)
    for wave in clock:
        with suppress(PrivotError):
            for slot, each in sends(make, wave)[-3:]:
                # On lines of its own: a kill may cut one, and the next begins anew.
                os.write(handle, f"\n{slot} {each.to_bytes().hex()} sent\n".encode())
    os.close(handle)


def sent(told):
    """What runs told to have sent, in turn: slots, and bytes as text. What was cut was not sent."""
    lines = (line.split() for line in told.read_text().splitlines() if line.endswith(" sent"))
    return [(int(slot), made) for slot, made, _ in lines]


def drawn(folder, kills, jumps, device=kept, sends=reports):
    """The draws that were sent: a set of pairs (slot, bytes), from runs that were killed.

    A run begins in the wave that was last sent, or so many waves before or after. It is killed within a
    few milliseconds after so many reports, or while it starts.
    """
    told, chance = folder / "told", random.Random(0)
    told.touch()
    for number in range(kills + 1):
        before = sent(told)
        first = before[-1][0] if before else 0
        enough = len(before) + chance.randint(0, 2)
        clock = [max(0, first + t + chance.randint(-jumps, jumps)) for t in range(WAVES)]
        child = os.fork()
        if child == 0:
            run(device(folder / "ledger"), sends, told, clock)
            os._exit(0)
        ended = False
        while number < kills and not ended and len(sent(told)) < enough:
            time.sleep(0.0005)
            ended = os.waitpid(child, os.WNOHANG)[0] == child
        if number < kills and not ended:
            time.sleep(chance.uniform(0, 0.01))
            os.kill(child, signal.SIGKILL)
        if not ended:
            os.waitpid(child, 0)
    return set(sent(told))


def answered(folder, kills, jumps, careless=False):
    """The same of a tree's answers, and of the intervals that they are of."""
    return drawn(folder, kills, jumps, careless_bits if careless else told_bits, answers)


def second_draws(draws):
    """How many draws there are of a wave that has one, or less than w waves from another."""
    waves = sorted(wave for wave, _ in draws)
    return sum(b - a < PANEL.window for a, b in pairwise(waves))


def second_answers(drawn):
    """How many answers there are of an interval that has one."""
    return len(drawn) - len({interval for interval, _ in drawn})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=KILLS)
    kills, found = parser.parse_args().kills, 0
    print("| what | clock | kills | draws sent | second draws |")
    print("|---|---|---:|---:|---:|")
    for what, draw, second in (
        ("reports of a panel, in w waves", drawn, second_draws),
        ("answers of a tree, of an interval", answered, second_answers),
    ):
        for clock, jumps in (("right", 0), ("jumps by up to 5 waves, to and fro", 5)):
            with tempfile.TemporaryDirectory() as temporary:
                draws = draw(Path(temporary), kills, jumps)
            found += second(draws)
            print(f"| {what} | {clock} | {kills} | {len(draws)} | {second(draws)} |", flush=True)
    sys.exit(int(found > 0))


if __name__ == "__main__":
    main()

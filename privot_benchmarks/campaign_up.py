"""Seconds from `privot campaign up` to the first accepted report, of one person.

    python privot_benchmarks/campaign_up.py --times 5

Campaigns are those of the guide: reports of local noise, and shares with proofs to both servers. The
clock starts with the command and stops with the last acknowledgment; the median of the runs is printed.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "web"))
import people  # noqa: E402 (found by the line above)

PRIVOT = (sys.executable, "-m", "privot")
SCHEMA = str(ROOT / "examples" / "web" / "commute.toml")
AGGREGATED = ("--where", "aggregated", "--delta", "1e-6", "--people", "5000", "--proofs")
KINDS = {"local noise": ("--epsilon", "4"), "two servers, proofs": ("--epsilon", "1", *AGGREGATED)}


def seconds_until_accepted(folder: Path, options: Sequence[str]) -> float:
    """Make a campaign, start it, and send one person's report, or shares."""
    new = [*PRIVOT, "campaign", "new", SCHEMA, *options, "-o", str(folder)]
    subprocess.run(new, check=True, capture_output=True)
    rule = next(
        path for name in ("encoder", "randomizer") if (path := folder / f"{name}.json").exists()
    )
    ports = ["--port", "0", "--page-port", "0"]
    ports += ["--helper-port", "0"] if rule.stem == "encoder" else []
    began = time.perf_counter()
    up = [*PRIVOT, "campaign", "up", str(folder), *ports]
    with subprocess.Popen(up, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = {}
        while not (line := process.stdout.readline()).startswith("Ctrl-C"):
            name, address = line.split()
            found[name] = address
        text = rule.read_text("utf-8")
        if rule.stem == "encoder":
            people.send_shares(text, 1, (found["leader"], found["helper"]))
        else:
            people.send_reports(text, 1, found["collector"])
        taken = time.perf_counter() - began
        process.send_signal(signal.SIGINT)
        process.communicate()
    return taken


def main() -> None:
    """Measure each kind of campaign, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=5, help="runs (default: %(default)s)")
    times = parser.parse_args().times
    for kind, options in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            taken = [seconds_until_accepted(Path(folder, str(k)), options) for k in range(times)]
        print(
            f"{kind:20} {statistics.median(taken):5.2f} s  ({min(taken):.2f} to {max(taken):.2f})"
        )


if __name__ == "__main__":
    main()

"""What the audit catches of seeded bugs, and how often it accuses an honest randomizer.

    python privot_benchmarks/audit_power.py   # about eight minutes on one idle core
    python privot_benchmarks/audit_power.py --draws 2000     # fewer draws a run

The bugs and the honest randomizers are those of `tests/audit/seeded_bugs.py`. At a
confidence of 99.9 %, 200 honest runs should see no false alarm (0.2 expected at most).
"""

import argparse
import sys
import time
from itertools import cycle, islice
from pathlib import Path

from privot.audit import audit_randomizer

RUNS = 200


def main() -> None:
    """Print what was caught, then what was accused."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.audit.seeded_bugs import BUGS, HONEST, MORE_BUGS, caught

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=20_000, help="reports of each record")
    parser.add_argument("--runs", type=int, default=RUNS, help="honest runs")
    settings = parser.parse_args()
    start = time.process_time()
    for kind, bugs in (("of the mechanisms", BUGS), ("more", MORE_BUGS)):
        missed = [name for name, bug in bugs.items() if not caught(bug)]
        print(f"bugs {kind}: caught {len(bugs) - len(missed)} of {len(bugs)} {missed}", flush=True)
    accused = []
    for name, make in islice(cycle(HONEST.items()), settings.runs):
        result = audit_randomizer(make(), num_draws=min(settings.draws, _most(name)))
        if result.refuted:
            accused.append((name, min(result.tests, key=lambda test: test.p_value)))
    print(f"false alarms: {len(accused)} in {settings.runs} runs {accused}")
    print(f"{time.process_time() - start:.0f} s of processor time")


def _most(name: str) -> int:
    """An image's report is as long as a hundred others."""
    return 1_000 if "image" in name or "subset" in name else 20_000


if __name__ == "__main__":
    main()

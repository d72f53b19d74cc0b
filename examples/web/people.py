"""Imaginary people who take part in the campaign of the guide: each draws one report, and sends it.

python examples/web/people.py campaign --people 5000
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from privot.device import Device, write_batch

BATCH = 100
MINUTES = {"on foot": 15, "bicycle": 25, "bus or train": 45, "car": 35}


def person(rng: random.Random) -> dict[str, object]:
    """Who walks has not far to go."""
    (travel,) = rng.choices(list(MINUTES), (15, 25, 30, 30))
    age = round(min(80.0, max(16.0, rng.gauss(40, 13))))
    return {
        "age": age,
        "travel": travel,
        "minutes": min(120.0, rng.gammavariate(6, MINUTES[travel] / 6)),
    }


def main() -> None:
    """Draw and send."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("campaign", type=Path, help="folder of the campaign")
    parser.add_argument("--people", type=int, default=5000)
    parser.add_argument("--collector", default="http://127.0.0.1:8000")
    given = parser.parse_args()
    device = Device.from_json((given.campaign / "randomizer.json").read_text(encoding="utf-8"))
    address = f"{given.collector}/v1/campaigns/{device.fingerprint.hex()}/reports"
    rng = random.Random()
    for start in range(0, given.people, BATCH):
        count = min(BATCH, given.people - start)
        batch = write_batch(device.report(person(rng)) for _ in range(count))
        headers = {"content-type": "application/vnd.privot.batch"}
        try:
            with urlopen(Request(address, batch, headers)) as answer:
                answer.read()
        except URLError as error:
            raise SystemExit(
                f"{given.collector} takes no reports ({error}): is it running?"
            ) from None
    print(f"{given.people:,} people took part")


if __name__ == "__main__":
    main()

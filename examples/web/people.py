"""Imaginary people who take part in the campaign of the guide: each sends one report, or two shares.

python examples/web/people.py campaign --people 5000
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from privot.aggregated import Encoder
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


def groups(people: int) -> Iterator[list[dict[str, object]]]:
    """As many people, some at once."""
    rng = random.Random()
    for start in range(0, people, BATCH):
        yield [person(rng) for _ in range(min(BATCH, people - start))]


def post(address: str, kind: str, body: bytes) -> None:
    """Send, and wait for the acknowledgment."""
    try:
        with urlopen(Request(address, body, {"content-type": kind})) as answer:
            answer.read()
    except URLError as error:
        raise SystemExit(f"{address} takes nothing ({error}): is it running?") from None


def send_reports(text: str, people: int, collector: str) -> None:
    """Each person's device draws a report."""
    device = Device.from_json(text)
    address = f"{collector}/v1/campaigns/{device.fingerprint.hex()}/reports"
    for group in groups(people):
        batch = write_batch(device.report(each) for each in group)
        post(address, "application/vnd.privot.batch", batch)


def send_shares(text: str, people: int, servers: Sequence[str]) -> None:
    """Each person's device makes two shares, one for each server."""
    encoder = Encoder.from_json(text)
    for group in groups(people):
        shares = [encoder.encode(each) for each in group]
        for server, own in zip(servers, zip(*shares, strict=True), strict=True):
            post(f"{server}/shares", "application/octet-stream", b"".join(own))


def main() -> None:
    """Draw and send."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("campaign", type=Path, help="folder of the campaign")
    parser.add_argument("--people", type=int, default=5000)
    parser.add_argument("--collector", default="http://127.0.0.1:8000")
    parser.add_argument("--leader", default="http://127.0.0.1:8000")
    parser.add_argument("--helper", default="http://127.0.0.1:8002")
    given = parser.parse_args()
    encoder, randomizer = given.campaign / "encoder.json", given.campaign / "randomizer.json"
    if encoder.exists():
        text = encoder.read_text(encoding="utf-8")
        send_shares(text, given.people, (given.leader, given.helper))
    else:
        send_reports(randomizer.read_text(encoding="utf-8"), given.people, given.collector)
    print(f"{given.people:,} people took part")


if __name__ == "__main__":
    main()

"""Reports a second that a collector acknowledges, and what it takes to start with many.

    python privot_benchmarks/collector.py   # about two minutes on two idle cores
    python privot_benchmarks/collector.py --json docs/results/collector/collector.json

A server is started in a process of its own, with its store in `--folder`, a folder of the disk that is
measured; one client process sends to its loopback address, over connections that stay open: batches of
100, then reports one by one. A report counts when its sender is told that it is on the disk. In the
same run, on the same disk, one SQLite commit a report (`synchronous = FULL`), with the default journal
and with WAL, twice in turn. Then the store alone takes a million reports in batches of 1,000, beside a
SQLite table with a row a report whose key is its id. Where PostgreSQL is installed, a server is started
on a database of its own (default settings, on the disk of /tmp), and gets batches and single reports.
Then `privot campaign up` is timed from its command to its first accepted report. Last a store of 10
million reports is made, and a server is started on it.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np
import uvloop

from privot import Randomizer, Schema
from privot.collector.arrivals import Campaign
from privot.collector.folder import FolderStore
from privot.collector.store import CRC_BYTES, ID_AT
from privot.device import Device, write_batch

SCHEMA = """
[columns.age]
kind = "numeric"
bounds = [0, 80]
bins = 8
[columns.sex]
kind = "categorical"
categories = ["F", "M"]
[columns.region]
kind = "categorical"
categories = ["a", "b", "c", "d", "e"]
"""
COMMITS = 150


def reports_of(device: Device, count: int, rng: np.random.Generator) -> np.ndarray:
    """Records of made-up ids, one payload."""
    example = device.report({"age": 31, "sex": "F", "region": "c"}).to_bytes()
    records = np.tile(np.frombuffer(example, np.uint8), (count, 1))
    return renamed(records, rng)


def renamed(records: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same with other ids, and the checksums of those."""
    records[:, ID_AT : ID_AT + 16] = rng.integers(0, 256, (len(records), 16), np.uint8)
    sums = [zlib.crc32(row[:-CRC_BYTES]) for row in records]
    records[:, -CRC_BYTES:] = np.array(sums, ">u4").view(np.uint8).reshape(-1, 4)
    return records


class Serving:
    """A server that was started, and how long that took."""

    def __init__(self, store: Path | str, randomizer: Path, *options: str) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "privot", "serve", str(randomizer), "--port", "0"]
        command += ["--store", str(store), "--seal-every", "0", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.address = self.process.stdout.readline().strip()
        self.seconds = time.perf_counter() - began

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> dict[str, float]:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return {name: int(fields[name].split()[0]) * 1024 / 1e9 for name in ("VmRSS", "VmHWM")}

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Connection(asyncio.Protocol):
    """Sends a request after the other."""

    def __init__(self, requests, done) -> None:
        self.requests, self.done, self.held, self.accepted = requests, done, b"", 0

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.following()

    def following(self) -> None:
        if (request := next(self.requests, None)) is None:
            self.transport.close()
            self.done.set_result(self.accepted)
        else:
            self.transport.write(request)

    def data_received(self, data) -> None:
        self.held += data
        head, found, body = self.held.partition(b"\r\n\r\n")
        if found and body.endswith(b"}"):
            assert head.startswith(b"HTTP/1.1 200"), self.held
            self.accepted += json.loads(body)["accepted"]
            self.held = b""
            self.following()


def sent(address: str, fingerprint: str, records: np.ndarray, size: int, connections: int) -> float:
    """Reports a second."""
    host, port = address.removeprefix("http://").split(":")
    head = f"POST /v1/campaigns/{fingerprint}/reports HTTP/1.1\r\nhost: {host}\r\n"
    head += "content-type: application/vnd.privot.batch\r\ncontent-length: "
    bodies = [
        write_batch([row.tobytes() for row in records[start : start + size]])
        for start in range(0, len(records), size)
    ]
    requests = iter([f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies])

    async def run() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        began = time.perf_counter()
        ends = [loop.create_future() for _ in range(connections)]
        for end in ends:
            await loop.create_connection(lambda end=end: Connection(requests, end), host, int(port))
        return sum(await asyncio.gather(*ends)), time.perf_counter() - began

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        accepted, seconds = runner.run(run())
    assert accepted == len(records)
    return accepted / seconds


def commits(folder: Path, records: np.ndarray, journal: str) -> float:
    """SQLite commits a second, a report each."""
    path = folder / f"{journal}.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS reports (id BLOB PRIMARY KEY, report BLOB)")
    began = time.perf_counter()
    for row in records:
        data = row.tobytes()
        connection.execute("INSERT INTO reports VALUES (?, ?)", (data[ID_AT : ID_AT + 16], data))
    seconds = time.perf_counter() - began
    connection.close()
    return len(records) / seconds


def rates(folder: Path, device: Device, campaign: Campaign, randomizer: Path) -> dict:
    rng = np.random.default_rng(0)
    batches, singles = reports_of(device, 300_000, rng), reports_of(device, 20_000, rng)
    rivals = [reports_of(device, COMMITS, rng) for _ in range(4)]
    found = {"sqlite_delete": [], "sqlite_wal": [], "batches_of_100": [], "singly": []}
    found["cpu_us_a_request"] = []
    server = Serving(folder / "store", randomizer)
    try:
        for part in range(2):
            found["sqlite_delete"].append(commits(folder, rivals[2 * part], "DELETE"))
            found["sqlite_wal"].append(commits(folder, rivals[2 * part + 1], "WAL"))
            some = slice(part * 150_000, (part + 1) * 150_000)
            to = (server.address, campaign.fingerprint)
            used = [server.cpu_seconds()]
            found["batches_of_100"].append(sent(*to, batches[some], 100, 32))
            used.append(server.cpu_seconds())
            some = slice(part * 10_000, (part + 1) * 10_000)
            found["singly"].append(sent(*to, singles[some], 1, 128))
            used.append(server.cpu_seconds())
            each = np.diff(used) / (1500, 10_000) * 1e6
            found["cpu_us_a_request"].append([round(us) for us in each.tolist()])
    finally:
        server.kill()
    return found


def postgres(folder: Path, device: Device, campaign: Campaign, randomizer: Path) -> dict:
    """Reports a second over HTTP with a store in PostgreSQL; empty where it is not installed."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    import postgres_server

    if postgres_server.programs() is None:
        return {}
    rng = np.random.default_rng(3)
    batches, singles = reports_of(device, 300_000, rng), reports_of(device, 20_000, rng)
    with postgres_server.server() as address:
        server = Serving(address, randomizer, "--release", str(folder / "sealed"))
        try:
            to = (server.address, campaign.fingerprint)
            return {
                "batches_of_100": sent(*to, batches, 100, 32),
                "singly": sent(*to, singles, 1, 128),
            }
        finally:
            server.kill()


def first_report(folder: Path) -> float:
    """Seconds from the command `privot campaign up` to the first accepted report."""
    (folder / "schema.toml").write_text(SCHEMA)
    privot, path = [sys.executable, "-m", "privot", "campaign"], folder / "campaign"
    new = ["new", str(folder / "schema.toml"), "--epsilon", "4", "-o", str(path)]
    subprocess.run([*privot, *new], check=True, stdout=subprocess.DEVNULL)
    device = Device.from_json((path / "randomizer.json").read_text())
    records = reports_of(device, 1, np.random.default_rng(4))
    began = time.perf_counter()
    command = [*privot, "up", str(path), "--port", "0", "--page-port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        lines = iter(process.stdout.readline, "")
        address = next(line.split()[1] for line in lines if line.startswith("collector"))
        sent(address, device.fingerprint.hex(), records, 1, 1)
        return time.perf_counter() - began
    finally:
        process.terminate()
        process.wait()


def alone(folder: Path, device: Device, campaign: Campaign, count: int = 1_000_000) -> dict:
    """Reports a second of a store, and of a table with a row a report, in batches of 1,000."""
    records = reports_of(device, count, np.random.default_rng(2))
    store = FolderStore(folder / "alone", campaign.format)
    began = time.perf_counter()
    for at in range(0, count, 1000):
        store.append(records[at : at + 1000])
    found = {"store": count / (time.perf_counter() - began)}
    store.close()
    connection = sqlite3.connect(folder / "rows.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE reports (id BLOB PRIMARY KEY, report BLOB) WITHOUT ROWID")
    began = time.perf_counter()
    for at in range(0, count, 1000):
        reports = [row.tobytes() for row in records[at : at + 1000]]
        rows = [(report[ID_AT : ID_AT + 16], report) for report in reports]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR IGNORE INTO reports VALUES (?, ?)", rows)
        connection.execute("COMMIT")
    found["rows"] = count / (time.perf_counter() - began)
    connection.close()
    return found


def start_with(
    count: int, folder: Path, device: Device, campaign: Campaign, randomizer: Path
) -> dict:
    rng = np.random.default_rng(1)
    store = FolderStore(folder / "large" / campaign.fingerprint, campaign.format)
    some = reports_of(device, 100_000, rng)
    for _ in range(count // len(some)):
        store.append(renamed(some, rng))
    held, disk = store.count, store.disk_bytes()
    store.close()
    server = Serving(folder / "large", randomizer)
    try:
        cpu_seconds = server.cpu_seconds()
        rate = sent(server.address, campaign.fingerprint, reports_of(device, 20_000, rng), 100, 32)
        memory = server.memory()
    finally:
        server.kill()
    return {
        "stored": held,
        "disk_gb": disk / 1e9,
        "start_seconds": server.seconds,
        "start_cpu_seconds": cpu_seconds,
        "memory_gb": memory["VmRSS"],
        "most_memory_gb": memory["VmHWM"],
        "batches_of_100": rate,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--folder", default=".", help="a folder of the disk that is measured")
    options.add_argument("--stored", type=int, default=10_000_000)
    options.add_argument("--json", help="where to write the figures")
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="collector-", dir=given.folder))
    try:
        path = folder / "randomizer.json"
        Randomizer.calibrate(Schema.from_toml(SCHEMA), 4.0).save(path)
        campaign, device = Campaign.load(path), Device.from_json(path.read_text())
        load = os.getloadavg()[0]
        found = {
            "cores": os.cpu_count(),
            "load_before": load,
            "report_bytes": campaign.format.record_bytes,
        }
        found |= rates(folder, device, campaign, path)
        best = {name: max(found[name]) for name in ("batches_of_100", "singly")}
        found["times_sqlite"] = best["batches_of_100"] / max(found["sqlite_delete"])
        found["times_sqlite_wal"] = best["batches_of_100"] / max(found["sqlite_wal"])
        found["alone"] = alone(folder, device, campaign)
        found["postgres"] = postgres(folder, device, campaign, path)
        found["up_to_first_report_seconds"] = first_report(folder)
        found["start"] = start_with(given.stored, folder, device, campaign, path)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(found, indent=2))
    if given.json:
        Path(given.json).parent.mkdir(parents=True, exist_ok=True)
        Path(given.json).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

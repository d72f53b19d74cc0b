"""`privot campaign up` starts all of a campaign, and what dies; what `new` prints is executed."""

import http.client
import json
import os
import shlex
import signal
import socket
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from campaign_reports import RANDOMIZER, made
from commands import privot
from forked_commands import start
from postgres_server import free_port
from privot.aggregated import Encoder, Server
from privot.campaign import create
from privot.device import Report
from privot.schema import Schema

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")


@contextmanager
def started(folder, *arguments, lines=4):
    """A command in a process of its own, until Ctrl-C; its addresses by name."""
    process = start(folder, *arguments)
    try:
        lines = [process.stdout.readline().decode() for _ in range(lines)]
        assert lines[-1].startswith("Ctrl-C"), [*lines, process.said()]
        yield process, dict(line.split() for line in lines[:-1])
    finally:
        process.kill()
        process.stdout.close()


def asked(address, method="GET", body=None, headers=None, path=None):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.request(method, path or parts.path or "/", body, headers or {})
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return found


def servers_of(process):
    """Its processes, by role (Linux)."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            words = (path / "cmdline").read_bytes().decode().split("\0")
        except OSError:  # it has ended
            continue
        if parent == process.pid and "serve" in words:
            role = words[words.index("--role") + 1] if "--role" in words else "collector"
            found[role] = int(path.name)
    return found


def posted(address, body, kind, path):
    """The counts that a server answers, as soon as it answers."""
    for _ in range(1200):
        with suppress(OSError, http.client.HTTPException):
            status, _, text = asked(address, "POST", body, {"content-type": kind}, path)
            assert status == 200, text
            return json.loads(text)
        time.sleep(0.05)
    raise AssertionError(f"nobody answers at {address}")


def taken(port):
    """Whether another program listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def whole_way(process, addresses):
    """A page's report arrives and is shown; a page from elsewhere is told nothing; Ctrl-C ends all."""
    page, collector = addresses["page"], addresses["collector"]
    status, _, text = asked(page)
    assert status == 200
    assert f'"collector": "{collector}"' in text
    assert "connect-src 'self' " + collector in text
    asks = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }
    fingerprint = json.loads(asked(page + "randomizer.json")[2])["fingerprint"]
    path = f"/v1/campaigns/{fingerprint}/reports"
    for origin, allowed in ((page.rstrip("/"), True), ("http://127.0.0.1:1", False)):
        _, headers, _ = asked(collector, "OPTIONS", headers=asks | {"origin": origin}, path=path)
        assert (headers.get("access-control-allow-origin") == origin) == allowed
    return path


def test_all_of_a_campaign_starts_and_ends_together(tmp_path):
    create(RANDOMIZER, tmp_path / "a b", title="?", collector="http://127.0.0.1:8000")
    ports = ("--port", "0", "--page-port", "0", "--every", "1")
    with started(tmp_path, "campaign", "up", "a b", *ports) as (process, addresses):
        path = whole_way(process, addresses)
        sent = [json.loads(json.dumps(Report.from_bytes(each).to_json())) for each in made(50)]
        body = json.dumps({"version": 1, "reports": sent})
        to = addresses["collector"], body, "application/json", path
        assert posted(*to)["accepted"] == 50
        os.kill(servers_of(process)["collector"], signal.SIGKILL)
        told = posted(*to)  # by the one that is started next
        assert (told["accepted"], told["duplicates"]) == (0, 50)
        for _ in range(600):
            status, _, text = asked(addresses["page"] + "status.json")
            if status == 200:
                break
            time.sleep(0.1)
        assert json.loads(text)["reports"] == 50
        assert asked(addresses["dashboard"])[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "everything that was acknowledged is stored" in process.said()
    assert (tmp_path / "a b" / "web" / "index.html").read_text().count("127.0.0.1:8000") == 2


@pytest.mark.slow
def test_servers_of_shares_with_proofs_are_killed_and_lose_nothing(tmp_path):
    """Each in turn, `kill -9`; and the command itself, whose servers then stop by themselves."""
    promise = {"epsilon": 8, "where": "aggregated", "delta": 1e-6, "people": 300}
    columns = {"bit": {"kind": "boolean"}}
    schema = Schema.from_dict({"columns": columns, "promise": promise})
    encoder = Encoder.calibrate(schema, proofs=True)
    at = {"leader": "http://127.0.0.1:8000", "helper": "http://127.0.0.1:8002"}
    create(encoder, tmp_path / "two", title="?", **at)
    ports = ("--port", "0", "--helper-port", "0", "--page-port", "0", "--every", "0.2")
    shares = [*encoder.encode_table({"bit": [True, False] * 20})]
    sent = {role: [pair[n] for pair in shares] for n, role in enumerate(at)}
    kind, stored = "application/octet-stream", 0
    for _ in range(2):
        with started(tmp_path, "campaign", "up", "two", *ports, lines=5) as (process, addresses):
            for role in at:
                for turn in range(3):
                    body = b"".join(sent[role][: stored + 5 * turn + 5])
                    told = posted(addresses[role], body, kind, "/shares")
                    assert (told["accepted"], told["duplicates"]) == (5, stored + 5 * turn)
                    os.kill(servers_of(process)[role], signal.SIGKILL)
            stored += 15
            running = servers_of(process)
            process.kill()
        for pid in running.values():
            while Path(f"/proc/{pid}").exists():  # or the test ends by its limit
                time.sleep(0.05)
    assert all(len(Server(tmp_path / "two" / role).ids(verified=False)) == 30 for role in at)


def test_what_new_prints_works_as_printed(tmp_path):
    (tmp_path / "schema.toml").write_text('[columns.b]\nkind = "boolean"\n')
    collector = f"http://127.0.0.1:{free_port()}"
    given = ("schema.toml", "--epsilon", "2", "-o", "my campaign", "--collector", collector)
    printed = privot(tmp_path, "campaign", "new", *given).stdout.splitlines()
    (command,) = [line.removeprefix("next: ") for line in printed if line.startswith("next: ")]
    program, *arguments = shlex.split(command)
    assert program == "privot"
    if taken(8001):  # by another program of this machine: the printed command has the default port
        arguments += ["--page-port", "0"]
    with started(tmp_path, *arguments) as (process, addresses):
        assert addresses["collector"] == collector
        whole_way(process, addresses)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_what_cannot_be_started_is_one_line(tmp_path):
    create(RANDOMIZER, tmp_path / "far", title="?", collector="https://reports.example.org")
    create(RANDOMIZER, tmp_path / "near", title="?", collector="http://127.0.0.1:8000")
    for arguments, words in (
        (("far",), "not of this machine"),
        (("nowhere",), "no campaign"),
        (("near", "--helper-port", "0"), "near has no helper, leave it out"),
    ):
        done = privot(tmp_path, "campaign", "up", *arguments)
        assert done.returncode == 2
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1

"""`privot campaign up` starts all of a campaign, and what `privot campaign new` prints is executed."""

import http.client
import json
import shlex
import signal
import socket
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from campaign_reports import RANDOMIZER, made
from commands import privot
from forked_commands import start
from postgres_server import free_port
from privot.campaign import create
from privot.device import Report

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")


@contextmanager
def started(folder, *arguments):
    """A command in a process of its own, until Ctrl-C; its addresses by name."""
    process = start(folder, *arguments)
    try:
        lines = [process.stdout.readline().decode() for _ in range(4)]
        assert lines[3].startswith("Ctrl-C"), [*lines, process.said()]
        yield process, dict(line.split() for line in lines[:3])
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
        kind = {"content-type": "application/json"}
        status, _, text = asked(addresses["collector"], "POST", body, kind, path)
        assert (status, json.loads(text)["accepted"]) == (200, 50)
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

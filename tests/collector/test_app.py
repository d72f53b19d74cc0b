"""The HTTP interface: answers say which reports are stored, and every error is a 4xx with a remedy."""

import asyncio
import json
import logging
import random
import re

import httpx
import numpy as np
import pytest

from campaign_reports import BATCH, CAMPAIGN, TEXT, changed, made
from privot.collector.admission import tokens
from privot.collector.app import Collector, ServedCampaign
from privot.collector.arrivals import Campaign, GroupCommit, MemoryLimit
from privot.collector.folder import FolderStore
from privot.collector.store import INVALID, NEW, StoreFull, StoreStopped
from privot.device import Report, write_batch

PATH = f"/v1/campaigns/{CAMPAIGN.fingerprint}"
REPORTS = f"{PATH}/reports"
JSON = {"content-type": "application/json"}


class Memory:
    """A store that discards what it accepts, or fails on demand."""

    error = None
    stopped = ""
    count = 0

    def append(self, records):
        if self.error:
            raise self.error
        valid = CAMPAIGN.format.validate(records)[0]
        self.count += int(valid.sum())
        return np.where(valid, NEW, INVALID)

    def disk_bytes(self):
        return 7


def calls(collector, *requests):
    """Answers to requests (method, path, and what httpx takes), one after the other."""

    async def run():
        transport = httpx.ASGITransport(collector.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return [await client.request(m, p, **how) for m, p, how in requests]

    return asyncio.run(run())


def post(collector, body, headers=BATCH):
    return calls(collector, ("POST", REPORTS, {"content": body, "headers": headers}))[0]


@pytest.fixture
def desk(tmp_path):
    writer = GroupCommit(FolderStore(tmp_path / "store", CAMPAIGN.format))
    yield ServedCampaign(CAMPAIGN, writer)
    writer.close()
    writer.store.close()


@pytest.fixture
def memory():
    desk = ServedCampaign(CAMPAIGN, GroupCommit(Memory()))
    yield desk
    desk.writer.close()


def test_each_report_is_told_what_became_of_it(desk):
    collector, reports = Collector([desk]), made(20)
    first = post(collector, write_batch(reports[:10]))
    assert (first.status_code, first.json()) == (
        200,
        {"accepted": 10, "duplicates": 0, "failed": []},
    )
    bad = reports[11][:-1] + b"\0" if reports[11][-1] else reports[11][:-1] + b"\1"
    mixed = [reports[3], changed(reports[4]), reports[10], bad]
    answer = post(collector, write_batch(mixed)).json()
    assert (answer["accepted"], answer["duplicates"]) == (2, 1)
    assert [(f["index"], f["reason"]) for f in answer["failed"]] == [(3, "checksum")]
    assert all(": " in f["message"] and "\n" not in f["message"] for f in answer["failed"])
    fields = {"version": 1, "reports": [Report.from_bytes(r).to_json() for r in reports]}
    answer = post(collector, json.dumps(fields), JSON).json()
    assert (answer["accepted"], answer["duplicates"], answer["failed"]) == (9, 11, [])
    assert desk.writer.store.count == 21
    assert (desk.metrics.received, desk.metrics.accepted, desk.metrics.duplicates) == (34, 21, 12)


def test_a_batch_of_which_nothing_is_kept_is_a_422(memory):
    answer = post(Collector([memory]), write_batch([made(1)[0][:-2]]))
    assert answer.status_code == 422
    assert answer.json()["failed"][0]["reason"] == "checksum"


def test_the_randomizer_is_served_to_its_byte_and_its_signature_too(memory):
    get = ("GET", f"{PATH}/randomizer.json", {}), ("GET", f"{PATH}/randomizer.json.sig", {})
    text, unsigned = calls(Collector([memory]), *get)
    assert text.content == TEXT.encode()
    assert unsigned.status_code == 404
    signed = ServedCampaign(Campaign(TEXT.encode(), b"c2lnbmVk"), memory.writer)
    assert calls(Collector([signed]), *get)[1].content == b"c2lnbmVk"


def bad_requests():
    """More than a hundred kinds, with the status that each should have, or None for any 4xx."""
    rng, report = random.Random(0), made(1)[0]
    batch, record = write_batch([report]), Report.from_bytes(report).to_json()
    kinds = []

    def send(body, status, headers=BATCH, method="POST", path=REPORTS):
        kinds.append((method, path, {"content": body, "headers": headers}, status))

    for kind in (
        "text/plain",
        "",
        "application/octet-stream",
        "multipart/form-data",
        "a/b/c",
        "json",
    ):
        send(batch, 415, {"content-type": kind})
    for coding in ("gzip", "br", "deflate", "x"):
        send(batch, 415, BATCH | {"content-encoding": coding})
    for path in (
        "",
        "0" * 64,
        "nothing",
        CAMPAIGN.fingerprint[:-1],
        CAMPAIGN.fingerprint.upper(),
        "%00",
    ):
        send(batch, 404, path=f"/v1/campaigns/{path}/reports")
    for path in (
        "/",
        "/v1",
        "/v2/campaigns",
        f"{PATH}/other",
        f"{PATH}/reports/1",
        "/../../etc/passwd",
    ):
        send(batch, 404, path=path)
    for method in ("PUT", "DELETE", "PATCH", "GET", "OPTIONS", "TRACE", "FOO"):
        send(batch, 405, method=method)
    for path in (f"{PATH}/randomizer.json", "/healthz", "/metrics"):
        send(batch, 405, path=path)
    for size in range(len(batch)):
        send(batch[:size], 400)
    for body in (batch + b"x", b"PVTB" + b"\xff" * 500, b"{}", b"\0" * 9, write_batch([])):
        send(body, 400)
    send(write_batch(made(1001)), 413)
    send(b"x" * 2**20, 413)
    for at in range(0, len(report), 3):
        send(
            write_batch(
                [report[:at] + bytes([report[at] ^ 1 << rng.randrange(8)]) + report[at + 1 :]]
            ),
            422,
        )
    for text in (
        "",
        "{",
        "[]",
        "1",
        "null",
        '"x"',
        "[" * 9999,
        "\ufeff{}",
        '{"a": NaN}',
        "9" * 5000,
    ):
        send(text.encode(), 400, JSON)
    good = {"version": 1, "reports": [record]}
    for change in (
        {"version": 2},
        {"version": "1"},
        {"version": None},
        {"reports": None},
        {"more": 1},
    ):
        send(json.dumps(good | change), 400, JSON)
    for name in record:
        for value in (None, 7, "x", [], {}, -1, "é", 2**70, True, [1]):
            if (name, value) != ("extensions", []):
                send(json.dumps(good | {"reports": [record | {name: value}]}), 422, JSON)
        send(
            json.dumps(good | {"reports": [{k: v for k, v in record.items() if k != name}]}),
            422,
            JSON,
        )
    send(json.dumps(good | {"reports": [1, "x", None, []]}), 422, JSON)
    return kinds


@pytest.fixture
def logged():
    """Names of the loggers of all records, of any level."""
    names, handler, before = [], logging.Handler(), logging.root.level
    handler.emit = lambda record: names.append(record.name.split(".")[0])
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.DEBUG)
    yield names
    logging.root.setLevel(before)
    logging.root.removeHandler(handler)


def test_every_bad_request_is_a_4xx_with_a_line_that_helps_and_none_is_logged(memory, logged):
    lines, kinds = [], bad_requests()
    assert len(kinds) >= 100
    collector = Collector([memory], log=lines.append)
    answers = calls(collector, *(kind[:3] for kind in kinds))
    for (*_, how, status), answer in zip(kinds, answers):
        assert answer.status_code == status, (how, answer.text)
        fields = answer.json()
        for line in [fields["error"]] if "error" in fields else fields["failed"]:
            assert re.fullmatch(r"[^\n]{5,120}: [^\n]{5,80}", line["message"]), line
            assert re.fullmatch("[a-z]+", line["reason"])
    assert "httpx" in logged  # the client's own
    assert lines == []
    assert {*logged} <= {"asyncio", "httpx", "httpcore"}
    assert memory.writer.store.count == 0


def test_what_was_sent_stands_in_no_answer(memory):
    secret = "Zq7secretZq7"
    record = Report.from_bytes(made(1)[0]).to_json()
    requests = [
        (
            "POST",
            REPORTS,
            {"content": body, "headers": headers | {"x-a": secret, "authorization": secret}},
        )
        for headers in (BATCH, JSON)
        for body in (
            secret,
            json.dumps({secret: secret}),
            json.dumps({"version": secret, "reports": []}),
            json.dumps({"version": 1, "reports": [record | {"id": secret}, record | {secret: 1}]}),
        )
    ]
    requests += [("GET", f"/{secret}", {}), ("POST", f"/v1/campaigns/{secret}/reports", {})]
    for answer in calls(Collector([memory]), *requests, ("GET", "/metrics", {})):
        assert secret not in answer.text + str(answer.headers)


def test_faults_of_the_store_are_asked_to_come_again(memory):
    lines = []
    collector, body = Collector([memory], log=lines.append), write_batch(made(2))
    for error, status in (
        (StoreFull("no room: later"), 507),
        (StoreStopped("stopped: later"), 503),
    ):
        memory.writer.store.error = error
        answer = post(collector, body)
        assert (answer.status_code, "retry-after" in answer.headers) == (status, True)
    memory.writer.store.error = ZeroDivisionError("secret words")
    answer = post(collector, body)
    assert (answer.status_code, answer.json()["error"]["reason"]) == (500, "fault")
    assert lines == ["a request failed by a fault of the server (ZeroDivisionError)"]
    memory.writer.store.error = None
    assert post(collector, body).status_code == 200
    memory.writer.store.stopped = "the disk failed: later"  # until a restart
    assert calls(collector, ("GET", "/healthz", {}))[0].status_code == 503
    memory.writer.store.stopped = ""
    assert calls(collector, ("GET", "/healthz", {}))[0].status_code == 200
    collector.stopping = True
    assert post(collector, body).status_code == 503
    assert calls(collector, ("GET", "/healthz", {}))[0].status_code == 503


def test_who_comes_when_all_room_is_taken_is_asked_to_come_later(memory):
    room = MemoryLimit(1000)
    collector = Collector([memory], memory=room)
    with room.claiming() as claim:
        claim(900)
        answer = post(collector, write_batch(made(10)))
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert post(collector, write_batch(made(10))).status_code == 200
    assert room.held == 0


def test_only_declared_origins_may_send(memory):
    collector = Collector([memory], origins=["https://example.org"])
    ask = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }
    for origin, allowed in (("https://example.org", True), ("https://example.com", False)):
        headers = BATCH | {"origin": origin}
        preflight, sent = calls(
            collector,
            ("OPTIONS", REPORTS, {"headers": {"origin": origin} | ask}),
            ("POST", REPORTS, {"content": write_batch(made(1)), "headers": headers}),
        )
        assert (preflight.status_code == 200) == allowed
        assert ("access-control-allow-origin" in sent.headers) == allowed
    assert "access-control-allow-origin" not in post(Collector([memory]), b"", BATCH).headers


def test_a_token_is_asked_for_before_the_body(memory, tmp_path):
    (tmp_path / "tokens").write_text("0123456789abcdef\n")
    collector = Collector([memory], tokens(tmp_path / "tokens"))
    body = write_batch(made(1))
    assert post(collector, body).status_code == 401
    assert post(collector, body, BATCH | {"authorization": "Bearer 0123456789abcdef"}).is_success


def test_metrics_are_counts_alone(memory):
    collector = Collector([memory])
    reports = made(30)
    post(collector, write_batch([*reports, reports[0][:-3]]))
    post(collector, b"nothing")
    calls(collector, ("GET", "/nothing", {}))
    health, metrics = calls(collector, ("GET", "/healthz", {}), ("GET", "/metrics", {}))
    assert health.json() == {"status": "ok"}
    label = f'campaign="{CAMPAIGN.fingerprint[:16]}"'
    for line in (
        f"privot_reports_received_total{{{label}}} 31",
        f"privot_reports_accepted_total{{{label}}} 30",
        f'privot_refused_total{{{label},reason="length"}} 1',
        f'privot_refused_total{{{label},reason="format"}} 1',
        'privot_refused_total{campaign="none",reason="path"} 1',
        f"privot_disk_bytes{{{label}}} 7",
        f"privot_request_seconds_count{{{label}}} 2",
        "privot_held_bytes 0",
    ):
        assert line in metrics.text.splitlines()

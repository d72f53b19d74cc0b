"""`privot serve` refuses what it cannot use before it takes anything."""

import json
import time
from base64 import b64encode
from uuid import UUID

import pytest

from campaign_reports import CAMPAIGN, TEXT, made, rows
from collector_process import post, serving
from commands import privot
from privot.collector.folder import FolderStore


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--origin", "*"], "no origin"),
        (["--origin", "https://a.org/path"], "without a path"),
        (["--origin", "https://"], "no origin"),
        (["--seal-every", "-1"], "give minutes"),
        (["--seal-every", "nan"], "give minutes"),
        (["--seal-every", "100001"], "give minutes from 0 to 100,000"),
        (["--token-file", "nothing"], "cannot be read"),
        (["--panel", "nothing"], "cannot be read"),
        (["--store", "redis://here", "--release", "there"], "not known"),
        (["--store", "postgresql://here/x"], "--release is missing"),
        (["--port", "99999"], "port"),
    ],
)
def test_what_cannot_be_used_is_one_line(tmp_path, options, words):
    (tmp_path / "randomizer.json").write_text(TEXT)
    given = ["randomizer.json", *options]
    done = privot(tmp_path, "serve", *given, *([] if "--port" in options else ["--port", "0"]))
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "randomizer.json"]


def test_a_store_that_is_served_is_refused(tmp_path):
    (tmp_path / "randomizer.json").write_text(TEXT)
    store = FolderStore(tmp_path / "store" / CAMPAIGN.fingerprint, CAMPAIGN.format)
    store.append(*rows(made(3)))
    done = privot(tmp_path, "serve", "randomizer.json", "--port", "0")
    assert done.returncode == 2
    assert "served by another process" in done.stderr
    store.close()


def test_reports_become_shards_now_and_then_and_the_log_has_their_counts_alone(tmp_path):
    reports = made(6)
    damaged = reports[5][:-1] + bytes([reports[5][-1] ^ 1])
    with serving(tmp_path, "--seal-every", "0.005", "--release", tmp_path / "sealed") as server:
        post(server.connection(), [*reports[:5], damaged])
        manifest = tmp_path / "sealed" / CAMPAIGN.fingerprint / "manifest.json"
        while not manifest.exists():  # or the test ends by its limit
            time.sleep(0.05)
        assert server.stop() == 0
    said = server.said()
    lines = [json.loads(line) for line in said.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    (sealed,) = (line for line in lines if "sealed 5 reports; 5 in the release" in line["message"])
    assert (sealed["received"], sealed["accepted"], sealed["refused"]) == (6, 5, {"checksum": 1})
    assert "127.0.0.1" not in said
    for report in (*reports, damaged):
        id_, payload = report[33:49], report[58:-4]
        for secret in (report, id_, payload):
            for text in (secret.hex(), b64encode(secret).decode().rstrip("=")):
                assert len(text) < 6 or text not in said
        assert str(UUID(bytes=id_)) not in said

"""The commands of a campaign."""

from dataclasses import replace

from campaign_reports import CAMPAIGN, RANDOMIZER, TEXT, later, rows
from campaign_reports import made as reports_made
from commands import privot
from privot import Randomizer
from privot.campaign import create
from privot.collector.arrivals import Campaign
from privot.collector.folder import FolderStore
from privot.device import Report, write_batch
from privot.randomizer.integrity import public_key, read_key
from privot.waves import Panel

SCHEMA = '[columns.day]\nkind = "datetime"\nbounds = ["2024-01-01", "2024-12-31"]\n'


def test_a_campaign_is_made_and_its_status_told(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    asked = ("--question", "day=When?", "-o", "c")
    made = privot(tmp_path, "campaign", "new", "schema.toml", "--epsilon", "2", *asked)
    assert made.returncode == 0, made.stderr
    assert "next: privot campaign up c\n" in made.stdout
    key = public_key(read_key(tmp_path / "c" / "signing.pem"))
    assert f"devices pin the public key {key}\n" in made.stdout
    randomizer = Randomizer.load(tmp_path / "c" / "randomizer.json")
    randomizer.privatize({"day": ["2024-05-31"] * 500}).save(tmp_path / "release.parquet")
    told = privot(tmp_path, "campaign", "status", "c", "--release", "release.parquet")
    assert told.stdout.startswith("500 reports; error to expect by now: ")
    assert (tmp_path / "c" / "web" / "status.json").exists()


def test_what_cannot_be_is_refused_in_one_line(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    for arguments, words in (
        (("new", "schema.toml", "--epsilon", "2", "--question", "day"), "asks nothing"),
        (("new", "schema.toml", "--epsilon", "2", "--question", "hour=?"), "no column"),
        (
            ("new", "schema.toml", "--epsilon", "2", "--leader", "http://a"),
            "sends to collector, and",
        ),
        (("status", "nowhere"), "no campaign"),
        (("status", "nowhere", "--watch", "-1"), "--watch"),
    ):
        done = privot(tmp_path, "campaign", *arguments)
        assert done.returncode == 2
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_key_is_made_and_used(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    privot(tmp_path, "calibrate", "schema.toml", "--epsilon", "2", "-o", "r.json")
    first = privot(tmp_path, "sign", "r.json", "--key", "k.pem", "--create")
    signature = (tmp_path / "r.json.sig").read_text()
    again = privot(tmp_path, "sign", "r.json", "--key", "k.pem")
    assert first.stdout == again.stdout
    assert (tmp_path / "r.json.sig").read_text() == signature
    assert privot(tmp_path, "sign", "r.json", "--key", "k.pem", "--create").returncode == 2


def test_reports_are_deleted_by_their_ids(tmp_path):
    create(RANDOMIZER, tmp_path / "c", title="?", collector="http://127.0.0.1:8000")
    none = privot(tmp_path, "campaign", "delete", "c", "ab" * 16)
    assert "holds no reports" in none.stderr
    place = tmp_path / "c" / "store" / CAMPAIGN.fingerprint
    store, reports = FolderStore(place, CAMPAIGN.format), reports_made(20)
    store.append(*rows(reports))
    served = privot(tmp_path, "campaign", "delete", "c", "--all")
    assert "served by another process" in served.stderr
    store.close()
    own = Report.from_bytes(reports[4]).id.hex()
    done = privot(tmp_path, "campaign", "delete", "c", own)
    assert done.stdout == "1 deleted, 19 left; their ids stay refused\n"
    for arguments, words in (
        ((), "give one of the two"),
        ((own, "--all"), "give one of the two"),
        (("12",), "32 hexadecimal digits"),
        (("00" * 16,), "nothing was deleted"),
    ):
        refused = privot(tmp_path, "campaign", "delete", "c", *arguments)
        assert refused.returncode == 2
        assert words in refused.stderr
    done = privot(tmp_path, "campaign", "delete", "c", "--all")
    assert done.stdout == "19 deleted, 0 left; their ids stay refused\n"


def test_reports_of_one_id_in_two_waves_are_deleted_together(tmp_path):
    """A forged copy that says another wave is another report, and must not hinder the deletion."""
    create(RANDOMIZER, tmp_path / "c", title="?", collector="http://127.0.0.1:8000")
    panel = Panel("bits", window=2, start=0, length=3600, seed="public", waves=100)
    panel.save(tmp_path / "panel.json")
    campaign = Campaign(TEXT.encode(), panel=panel)
    own, other = (Report.from_bytes(each) for each in reports_made(2))
    copies = [replace(own, time=2), Report.from_bytes(later(replace(own, time=2).to_bytes()))]
    read = campaign.read(write_batch([*copies, replace(other, time=2)]), as_json=False)
    place = tmp_path / "c" / "store" / CAMPAIGN.fingerprint
    store = FolderStore(place, campaign.format)
    store.append(read.records)
    store.close()
    command = ["campaign", "delete", "c", own.id.hex()]
    refused = privot(tmp_path, *command)
    assert refused.returncode == 2
    assert "give --panel" in refused.stderr
    done = privot(tmp_path, *command, "--panel", "panel.json")
    assert done.stdout == "2 deleted, 1 left; their ids stay refused\n"

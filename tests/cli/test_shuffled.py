"""A shuffled campaign by its commands: made, served by a shuffler, opened by the analyst."""

import json
import random
import time
from collections import Counter

import pytest

from collector_process import Sender, post, serving, wait_for_acknowledged
from commands import privot
from privot import Randomizer, Release
from privot.campaign import CampaignFolder
from privot.collector.analyst import seal_report
from privot.device import Device, Report, read_batch

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

SCHEMA = '[columns.travel]\nkind = "categorical"\ncategories = ["on foot", "bicycle", "car"]\n'
PROMISE = '[promise]\nepsilon = 1\nwhere = "shuffled"\ndelta = 1e-4\npeople = 50\n'
SHUFFLED = ("--epsilon", "1", "--where", "shuffled", "--delta", "1e-4", "--people", "50")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "schema.toml").write_text(SCHEMA)
    done = privot(folder, "campaign", "new", "schema.toml", *SHUFFLED, "-o", "c")
    assert done.returncode == 0, done.stderr
    return CampaignFolder.load(folder / "c"), done.stdout


def sealed(made, count):
    device = Device.from_json((made.folder / "randomizer.json").read_text())
    drawn = (device.report({"travel": "car"}) for _ in range(count))
    return [seal_report(each, made.analyst_key).to_bytes() for each in drawn]


def shuffler(made, folder, every="0"):
    text = (made.folder / "randomizer.json").read_text()
    return serving(folder, "--role", "shuffler", "--seal-every", every, text=text)


def batches(made, folder):
    place = folder / "store" / made.randomizer.fingerprint / "release"
    return {file: [*read_batch(file.read_bytes())] for file in sorted(place.glob("*.sealed"))}


def test_a_new_campaign_has_the_analysts_key_and_its_page_says_who_is_trusted(campaign):
    made, said = campaign
    assert "ε = 1, δ = 0.0001, shuffled, at least 50 people, fingerprint" in said
    assert (
        f"seal reports, {made.randomizer.guarantee} each, to the analyst {made.analyst_key}" in said
    )
    key = made.folder / "analyst.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert not [*made.web.glob("*.key")]
    page = (made.web / "index.html").read_text()
    facts = json.loads(page.split('"campaign">')[1].split("</script>")[0])
    assert facts["analystKey"] == made.analyst_key
    assert "If the shuffler is honest" in facts["promise"]
    assert "the batch of 50 reports" in facts["promise"]
    assert "the noise of each report is left" in facts["promise"]


def test_what_a_schema_promises_needs_no_options(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA + PROMISE)
    done = privot(tmp_path, "campaign", "new", "schema.toml", "-o", "c")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c" / "analyst.key").exists()
    refused = privot(tmp_path, "campaign", "delete", "c", "--all")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "nobody can tell which sealed report is whose: remove the whole store" in refused.stderr
    away = ("--collector", "https://shuffler.example", "-o", "d")
    done = privot(tmp_path, "campaign", "new", "schema.toml", *away)
    assert "on the shuffler's machine" in done.stdout
    assert "--role shuffler" in done.stdout.splitlines()[-1]
    local = privot(tmp_path, "campaign", "new", "schema.toml", *SHUFFLED, "-o", "e")
    assert local.returncode == 2
    assert "leave out --where" in local.stderr


def test_sealed_reports_travel_from_devices_to_a_release(campaign, tmp_path):
    made, _ = campaign
    fingerprint = made.randomizer.fingerprint
    with shuffler(made, tmp_path) as server:
        connection = server.connection()
        reports = sealed(made, 80)
        assert post(connection, reports[:49], fingerprint)[0] == 200
        assert server.stop() == 0
        assert not batches(made, tmp_path), "opened early"
    with shuffler(made, tmp_path) as server:
        connection = server.connection()
        status, told = post(connection, reports, fingerprint)
        assert (status, told["accepted"], told["duplicates"]) == (200, 31, 49)
        assert server.stop() == 0
        said = server.said()
    assert "a batch of 80 sealed reports is written" in said
    assert "127.0.0.1" not in said.replace("http://127.0.0.1", "")
    ((file, _),) = batches(made, tmp_path).items()
    key = ("--key", made.folder / "analyst.key", "-r", made.folder / "randomizer.json")
    done = privot(tmp_path, "collect", file, *key, "-o", "release.parquet")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("release.parquet: 80 reports, ε = 0.")
    assert "senders are honest, else ε = " in done.stdout
    assert len(Release.load(tmp_path / "release.parquet")) == 80
    (tmp_path / "again.parquet").write_bytes((tmp_path / "release.parquet").read_bytes())
    for arguments, words in (
        (("release.parquet", "again.parquet", "-o", "x.parquet"), "are not one batch"),
        ((file, "-o", "x.parquet"), "is sealed to the analyst: give --key"),
        ((file, file, *key, "-o", "x.parquet"), "give one batch"),
        ((file, "--key", made.folder / "signing.pem", *key[2:], "-o", "x.parquet"), "another kind"),
    ):
        refused = privot(tmp_path, "collect", *arguments)
        assert refused.returncode == 2
        assert words in refused.stderr


def test_what_is_calibrated_twice_by_one_schema_is_of_two_campaigns(tmp_path):
    """A report that is late for the first would be alone of its kind in a batch of the second."""
    (tmp_path / "schema.toml").write_text(SCHEMA + PROMISE)
    made = []
    for name in ("first.json", "second.json"):
        done = privot(tmp_path, "calibrate", "schema.toml", "-o", name)
        assert done.returncode == 0, done.stderr
        made.append(Randomizer.load(tmp_path / name))
    assert made[0] == made[1]
    assert made[0].fingerprint != made[1].fingerprint


def test_a_shuffler_is_refused_what_it_cannot_be(campaign, tmp_path):
    made, _ = campaign
    path = made.folder / "randomizer.json"
    Randomizer.calibrate(made.randomizer.schema.model_copy(update={"promise": None}), 1.0).save(
        tmp_path / "local.json"
    )
    for arguments, words in (
        ((path, "--port", "0"), "start it with --role shuffler"),
        (("local.json", "--port", "0", "--role", "shuffler"), "leave it out, or calibrate by"),
        ((path, "--role", "mixer"), "--role 'mixer' is unknown"),
        (
            (path, "--role", "shuffler", "--store", "postgresql://a@b/c"),
            "a shuffler keeps a folder",
        ),
    ):
        done = privot(tmp_path, "serve", *arguments)
        assert done.returncode == 2
        assert words in done.stderr


@pytest.mark.parametrize(
    ("times", "each"), [(3, 400), pytest.param(50, 1000, marks=pytest.mark.slow)]
)
@pytest.mark.timeout(1800)
def test_kills_under_load_lose_nothing_and_open_nothing_early_or_twice(
    campaign, tmp_path, times, each
):
    """The server shuffles every 60 milliseconds while two devices' reports come in, and is killed."""
    made, _ = campaign
    rng, sent, acknowledged = random.Random(times), [], []
    for run in range(times):
        with shuffler(made, tmp_path, every="0.001") as server:
            fresh = sealed(made, each) + rng.sample(sent, min(len(sent), 100))
            groups = [[fresh[at : at + 9] for at in range(half, len(fresh), 18)] for half in (0, 9)]
            senders = [Sender(server, own, made.randomizer.fingerprint) for own in groups]
            for sender in senders:
                sender.start()
            wait_for_acknowledged(senders, rng.randrange(60, each))
            # A fast machine acknowledges all reports before it shuffles for the first time.
            while run == times - 1 and not batches(made, tmp_path):
                time.sleep(0.002)
            server.kill()
            for sender in senders:
                sender.join()
                sent += sender.sent
                acknowledged += sender.acknowledged
                assert set(sender.statuses) <= {200}
        assert all(len(batch) >= 50 for batch in batches(made, tmp_path).values())
    assert batches(made, tmp_path)
    with shuffler(made, tmp_path) as server:
        connection = server.connection()
        for at in range(0, len(acknowledged), 500):
            _, told = post(connection, acknowledged[at : at + 500], made.randomizer.fingerprint)
            assert told["duplicates"] == len(acknowledged[at : at + 500]), "one was lost"
        assert post(connection, sealed(made, 50), made.randomizer.fingerprint)[0] == 200
        assert server.stop() == 0
    found = [each for batch in batches(made, tmp_path).values() for each in batch]
    assert max(Counter(found).values()) == 1
    assert {Report.from_bytes(each).payload for each in acknowledged} <= {*found}

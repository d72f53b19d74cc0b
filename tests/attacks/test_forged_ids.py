"""Somebody who knows a report's id sends other content under it, first or later: it is never lost."""

from dataclasses import replace

import pytest

from campaign_reports import CAMPAIGN, DEVICE, RANDOMIZER, TEXT, changed, later
from privot import Release
from privot.collector import collect
from privot.collector.app import Collector, ServedCampaign
from privot.collector.arrivals import Campaign
from privot.collector.folder import FolderStore
from privot.collector.sealing import FolderStorage, seal
from privot.device import Report, write_batch
from privot.waves import Panel

HONEST = [DEVICE.report({"age": 31, "sex": "F", "region": "c"}, now=7200.0) for _ in range(6)]
VICTIM = HONEST[0]
FORGED = {
    "another payload": Report.from_bytes(changed(VICTIM.to_bytes())),
    "no payload of a device": replace(VICTIM, payload=b"\xff" * len(VICTIM.payload)),
    "the same an hour later": Report.from_bytes(later(VICTIM.to_bytes())),
}


def sent(store, campaign, *reports):
    """What a collector keeps of them, one request each."""
    for report in reports:
        read = campaign.read(write_batch([report]), as_json=False)
        store.append(read.records)


def released(folder):
    return Release.load(folder).table.to_pylist()


WANTED = collect(HONEST, RANDOMIZER).release.table.to_pylist()


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("restart", ["", "restart", "sealing", "sealing and restart"])
@pytest.mark.parametrize("first", [True, False])
def test_a_collector_loses_no_report_to_a_forged_id(tmp_path, name, restart, first):
    def opened():
        return FolderStore(tmp_path / "store", CAMPAIGN.format)

    store, shelf = opened(), FolderStorage(tmp_path / "release")
    pair = [FORGED[name], VICTIM] if first else [VICTIM, FORGED[name]]
    sent(store, CAMPAIGN, pair[0], *HONEST[1:3])
    if "sealing" in restart:
        seal(store, CAMPAIGN, shelf)
    if "restart" in restart:
        store.close()
        store = opened()
    sent(store, CAMPAIGN, pair[1], *HONEST[3:], VICTIM)
    seal(store, CAMPAIGN, shelf)
    store.close()
    found = released(tmp_path / "release")
    assert all(found.count(row) == 1 for row in WANTED)
    assert len(found) == len(WANTED) + (name == "another payload")


@pytest.mark.parametrize("name", FORGED)
def test_releases_lose_no_report_to_a_forged_id(name):
    first = collect([FORGED[name], *HONEST], RANDOMIZER).release
    last = collect([*HONEST, FORGED[name]], RANDOMIZER).release
    assert first.table.equals(last.table) or name == "another payload"
    for release in (first, last, collect([first, last]).release):
        found = release.table.to_pylist()
        assert all(found.count(row) == 1 for row in WANTED)
        assert len(found) == len(WANTED) + (name == "another payload")


def test_a_copy_that_says_another_wave_takes_no_report_out_of_its_own(tmp_path):
    panel = Panel("bits", window=2, start=0, length=3600, seed="public", waves=10)
    campaign = Campaign(TEXT.encode(), panel=panel)
    store = FolderStore(tmp_path / "store", campaign.format)
    sent(store, campaign, FORGED["the same an hour later"], VICTIM, VICTIM)
    assert store.count == 2
    store.close()
    store = FolderStore(tmp_path / "store", campaign.format)
    sent(store, campaign, VICTIM, FORGED["the same an hour later"])
    assert store.count == 2
    store.close()


def test_every_sender_of_a_forged_pair_is_told_that_theirs_is_kept(tmp_path):
    from collector.test_app import post
    from privot.collector.arrivals import GroupCommit

    writer = GroupCommit(FolderStore(tmp_path / "store", CAMPAIGN.format))
    collector = Collector([ServedCampaign(CAMPAIGN, writer)])
    for report, told in ((FORGED["another payload"], (1, 0)), (VICTIM, (1, 0)), (VICTIM, (0, 1))):
        answer = post(collector, write_batch([report])).json()
        assert ((answer["accepted"], answer["duplicates"]), answer["failed"]) == (told, [])
    writer.close()
    writer.store.close()


@pytest.mark.parametrize("until", [0, 3600, 2**32 - 1])
def test_a_ticket_of_no_wave_takes_no_report_and_is_no_fault(until):
    panel = Panel("bits", window=2, start=7200, length=3600, seed="public", waves=2)
    read = Campaign(TEXT.encode(), panel=panel).read(write_batch([VICTIM]), False, until)
    assert ([each.reason for each in read.refused], len(read.records)) == (["wave"], 0)

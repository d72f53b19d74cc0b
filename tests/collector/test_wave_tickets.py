"""Tickets of waves: one report of a person in any w waves is taken, and nobody is written down."""

import asyncio
import json
import shutil

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from campaign_reports import BATCH, CAMPAIGN, made
from collector.test_app import calls
from privot import PrivotError
from privot.collector.admission import NotAdmitted, WaveTickets, tickets
from privot.collector.app import Collector, ServedCampaign
from privot.collector.arrivals import Campaign, GroupCommit, MemoryLimit
from privot.collector.folder import FolderStore
from privot.collector.store import StoreFull, StoreStopped
from privot.device import Report, write_batch
from privot.waves import Panel

PANEL = Panel("bits", window=4, start=0, length=3600, seed="public", waves=40)
PEOPLE = [f"person {number}" for number in range(30)]


@pytest.fixture(autouse=True)
def state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def office(tmp_path):
    """A service that gives tickets, at a time that the test sets, and who takes them."""
    now, key = [0.0], Ed25519PrivateKey.generate()
    given = WaveTickets(PANEL, CAMPAIGN.fingerprint, key, tmp_path / "wave", lambda: now[0])
    return now, given, tickets(key.public_key(), tmp_path / "used", clock=lambda: now[0])


def test_each_person_is_admitted_once_in_every_wave_of_theirs(office):
    now, given, admit = office
    admitted = {person: [] for person in PEOPLE}
    for wave in range(PANEL.waves):
        for minute in (1, 50):
            now[0] = 3600.0 * wave + 60 * minute
            for person in PEOPLE:
                try:
                    sender = admit(given.give(person), CAMPAIGN.fingerprint)
                    sender.use(b"report")
                    sender.acknowledge(b"report")
                    admitted[person].append(wave)
                except NotAdmitted:
                    continue
    assert admitted == {person: PANEL.waves_of(person) for person in PEOPLE}


def test_a_ticket_ends_with_its_wave(office):
    now, given, admit = office
    person = next(person for person in PEOPLE if PANEL.slot(person) == 0)
    ticket = given.give(person)
    now[0] = 3600.0
    with pytest.raises(NotAdmitted, match="ended"):
        admit(ticket, CAMPAIGN.fingerprint)
    with pytest.raises(NotAdmitted, match="in wave 4, and it is wave 1"):
        given.give(person)


def test_a_used_ticket_stays_used_after_a_restart(office, tmp_path):
    now, given, admit = office
    ticket = given.give(next(person for person in PEOPLE if PANEL.slot(person) == 0))
    admit(ticket, CAMPAIGN.fingerprint).use(b"report")
    shutil.copy(tmp_path / "used", tmp_path / "after")  # what a kill leaves
    again = tickets(given.key.public_key(), tmp_path / "after", clock=lambda: now[0])
    with pytest.raises(NotAdmitted, match="used up"):
        again(ticket, CAMPAIGN.fingerprint)


def test_nothing_that_is_kept_names_anybody_or_links_waves(office):
    now, given, _ = office
    person = next(person for person in PEOPLE if PANEL.slot(person) == 0)
    first, before = given.give(person), given.path.read_text()
    for other in PEOPLE:
        if PANEL.is_due(other, 0):
            given.give(other)
    assert given.path.read_text() == before  # whoever comes, and however often, nothing is written
    assert given.give(person)[:40] == first[:40]
    now[0] = 4 * 3600.0
    assert given.give(person)[:40] != first[:40]
    stored = json.loads(before)
    assert set(stored) == {"wave", "key"}
    assert stored["key"] not in given.path.read_text()  # nor can an old nonce be linked to a person


def test_a_clock_that_was_set_back_and_a_damaged_file_are_refused(office):
    now, given, _ = office
    now[0] = 3600.0 * 8
    person = next(person for person in PEOPLE if PANEL.slot(person) == 0)
    given.give(person)
    now[0] = 0.0
    with pytest.raises(PrivotError, match="tickets of wave 8 were given"):
        given.give(person)
    given.path.write_text("{}")
    with pytest.raises(PrivotError, match="damaged"):
        given.give(person)


def test_a_collector_takes_one_report_for_a_ticket(office, tmp_path):
    now, given, admit = office
    person = next(person for person in PEOPLE if PANEL.slot(person) == 0)
    writer = GroupCommit(FolderStore(tmp_path / "store", CAMPAIGN.format))
    collector = Collector([ServedCampaign(CAMPAIGN, writer)], admit, reports_each=1)
    path, reports = f"/v1/campaigns/{CAMPAIGN.fingerprint}/reports", made(3)

    def post(*sent):
        headers = BATCH | {"authorization": given.give(person)}
        body = {"content": write_batch(sent), "headers": headers}
        (answer,) = calls(collector, ("POST", path, body))
        return answer.status_code

    assert [post(reports[0]), post(reports[0]), post(reports[1])] == [200, 401, 401]
    now[0] = 4 * 3600.0
    assert post(*reports) == 413
    assert writer.store.count == 1
    writer.close()
    writer.store.close()


class Failing(FolderStore):
    """A store that fails before, or after, it has stored a group."""

    fails = ()

    def append(self, records):
        before, *self.fails = self.fails or (None,)
        if before is True:
            raise StoreFull("the disk is full")
        statuses = super().append(records)
        if before is False:
            raise StoreStopped("the connection was lost")
        return statuses


def test_the_same_report_comes_again_after_a_refusal_and_no_other(office, tmp_path):
    """After 408, 413, 422, 429, 503, 507 the ticket is good for the same report, after 200 for none."""
    now, given, admit = office
    person = next(person for person in PEOPLE if PANEL.slot(person) == 0)
    writer = GroupCommit(Failing(tmp_path / "store", CAMPAIGN.format))
    slow = Collector([ServedCampaign(CAMPAIGN, writer)], admit, reports_each=1, body_seconds=0.05)
    full, room = MemoryLimit(size=1), MemoryLimit()
    busy = Collector([ServedCampaign(CAMPAIGN, writer)], admit, reports_each=1, memory=full)
    ready = Collector([ServedCampaign(CAMPAIGN, writer)], admit, reports_each=1, memory=room)
    path, (mine, other) = f"/v1/campaigns/{CAMPAIGN.fingerprint}/reports", made(2)

    async def never_ends():
        yield write_batch([mine])[:10]
        await asyncio.sleep(5)

    def post(collector, content):
        headers = BATCH | {"authorization": given.give(person)}
        (answer,) = calls(collector, ("POST", path, {"content": content, "headers": headers}))
        return answer.status_code

    assert post(slow, never_ends()) == 408
    assert post(ready, write_batch([mine, other])) == 413
    assert post(ready, write_batch([mine[:-2]])) == 422
    with full.claiming() as claim:
        claim(1)
        assert post(busy, write_batch([mine])) == 429
    assert (tmp_path / "used").stat().st_size == 24  # so far not used
    writer.store.fails = [True, False]
    assert post(ready, write_batch([mine])) == 507
    assert post(ready, write_batch([other])) == 401  # the first may be stored for all it is known
    assert post(ready, write_batch([mine])) == 503
    assert post(ready, write_batch([other])) == 401
    assert [post(ready, write_batch([mine])) for _ in range(2)] == [200, 401]
    assert writer.store.count == 1
    writer.close()
    now[0] = 4 * 3600.0
    assert post(ready, write_batch([other])) == 503  # closed: not stored, and not used
    assert (tmp_path / "used").stat().st_size == 2 * 24
    writer.store.close()


def test_of_two_reports_at_once_for_one_ticket_one_is_taken(office, tmp_path):
    _, given, admit = office
    person = next(person for person in PEOPLE if PANEL.slot(person) == 0)
    writer = GroupCommit(FolderStore(tmp_path / "store", CAMPAIGN.format))
    collector = Collector([ServedCampaign(CAMPAIGN, writer)], admit, reports_each=1)
    headers = BATCH | {"authorization": given.give(person)}
    path = f"/v1/campaigns/{CAMPAIGN.fingerprint}/reports"

    async def run():
        both = asyncio.Barrier(2)

        async def body(report):
            data = write_batch([report])
            yield data[:10]
            await both.wait()  # both tickets were looked at before either body is whole
            yield data[10:]

        transport = httpx.ASGITransport(collector.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            sent = [client.post(path, content=body(r), headers=headers) for r in made(2)]
            return sorted(answer.status_code for answer in await asyncio.gather(*sent))

    assert asyncio.run(run()) == [200, 401]
    assert writer.store.count == 1
    writer.close()
    writer.store.close()


@pytest.mark.parametrize(("hour", "status"), [(4, 200), (3, 422), (5, 422), (41, 422), (0, 422)])
def test_a_report_has_to_be_of_the_wave_of_its_ticket(office, tmp_path, hour, status):
    now, given, admit = office
    now[0] = 4 * 3600.0 + 100
    person = next(person for person in PEOPLE if PANEL.slot(person) == 0)
    campaign = Campaign(CAMPAIGN.text, None, PANEL)
    writer = GroupCommit(FolderStore(tmp_path / "store", campaign.format))
    collector = Collector([ServedCampaign(campaign, writer)], admit, reports_each=1)
    drawn = Report.from_bytes(made(1)[0])
    sent = Report(drawn.fingerprint, drawn.id, hour, drawn.payload).to_bytes()
    body = {
        "content": write_batch([sent]),
        "headers": BATCH | {"authorization": given.give(person)},
    }
    (answer,) = calls(collector, ("POST", f"/v1/campaigns/{campaign.fingerprint}/reports", body))
    assert answer.status_code == status
    assert [each["reason"] for each in answer.json()["failed"]] == ["wave"] * (status == 422)
    assert writer.store.count == (status == 200)
    writer.close()
    writer.store.close()

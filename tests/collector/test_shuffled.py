"""Sealed reports: what the shuffler keeps, when a batch opens, and what the analyst counts of it."""

import json
import os
import random
import re
import shutil
import signal
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives.asymmetric import ec

from campaign_reports import RANDOMIZER as LOCAL
from campaign_reports import SCHEMA
from privot import Randomizer
from privot.collector import analyst
from privot.collector.analyst import (
    carrier_of,
    collect_batch,
    new_analyst_key,
    open_batch,
    public_analyst_key,
    read_analyst_key,
    seal_report,
)
from privot.collector.arrivals import Campaign, ShuffledCampaign
from privot.collector.folder import FolderStore
from privot.collector.sealing import FolderStorage, write_shuffled
from privot.collector.store import DUPLICATE, NEW
from privot.core.errors import PrivotError
from privot.device import Device, Report, read_batch, write_batch
from privot.randomizer import Release
from privot.randomizer.integrity import new_key
from privot.schema.schema import Promise
from privot.waves import Panel

PEOPLE = 40
PROMISE = Promise(1.0, "shuffled", delta=1e-4, people=PEOPLE)
RANDOMIZER = Randomizer.calibrate(SCHEMA.model_copy(update={"promise": PROMISE}))
TEXT = RANDOMIZER.to_json() + "\n"
CAMPAIGN = ShuffledCampaign(TEXT.encode())
DEVICE = Device.from_json(TEXT)
KEY = ec.generate_private_key(ec.SECP256R1())
VECTORS = json.loads((Path(__file__).parents[2] / "conformance" / "sealed.json").read_text())


def drawn(count):
    """Reports of devices, with the hour of the report."""
    return [DEVICE.report({"age": 31, "sex": "F", "region": "c"}) for _ in range(count)]


def sealed(reports, key=KEY):
    return [seal_report(each, public_analyst_key(key)).to_bytes() for each in reports]


def rows(reports):
    read = CAMPAIGN.read(write_batch(reports), as_json=False)
    assert not read.refused
    return (read.records,)


def opened(folder):
    return FolderStore(folder / "store", CAMPAIGN.format)


def write(store, folder):
    return write_shuffled(store, CAMPAIGN, FolderStorage(folder / "batches"))


def batches(folder):
    """Sealed contents of each batch, in its order."""
    return [[*read_batch(file.read_bytes())] for file in sorted(folder.glob("batches/*.sealed"))]


def contents(reports):
    return {Report.from_bytes(each).payload for each in reports}


def batch_of(folder, reports):
    """A file of sealed reports, as a shuffler writes it."""
    path = folder / "batch-000000.sealed"
    path.write_bytes(write_batch([Report.from_bytes(each).payload for each in reports]))
    return path


# The seal.


@pytest.mark.parametrize("name", VECTORS)
def test_the_suite_is_that_of_the_rfc(name):
    vector = VECTORS[name]
    key = ec.derive_private_key(int(vector["recipient"]["private"], 16), ec.SECP256R1())
    given = [bytes.fromhex(vector[field]) for field in ("sealed", "info", "aad", "content")]
    found = openssl.hpke._decrypt_with_aad(analyst._SUITE, given[0], key, given[1], given[2])
    assert found == given[3]


def test_a_report_that_the_client_in_javascript_sealed_opens():
    vector = VECTORS["report"]
    key = ec.derive_private_key(int(vector["recipient"]["private"], 16), ec.SECP256R1())
    report = Report.from_bytes(bytes.fromhex(vector["content"]))
    (found,), against = analyst._opened([bytes.fromhex(vector["sealed"])], report.fingerprint, key)
    assert (found, against) == (report, [])


def test_all_sealed_reports_of_a_campaign_have_one_length_and_no_time():
    reports = [Report.from_bytes(each) for each in sealed(drawn(20))]
    assert {len(each.payload) for each in reports} == {len(drawn(1)[0].to_bytes()) + 81}
    assert {each.time for each in reports} == {0}
    (inner, *_), _ = analyst._opened([reports[0].payload], reports[0].fingerprint, KEY)
    assert inner.time == 0


def test_two_seals_of_a_report_have_nothing_in_common():
    """Nor has either with the report: uniform bytes agree in few of 256 places."""
    (report,) = drawn(1)
    first, second = (np.frombuffer(each, np.uint8)[-100:-4] for each in sealed([report, report]))
    plain = np.frombuffer(replace(report, time=0).to_bytes(), np.uint8)
    body = np.frombuffer(seal_report(report, public_analyst_key(KEY)).payload, np.uint8)[65:-16]
    assert (first == second).sum() < 12
    assert (body == plain).sum() < 12


def test_keys_are_their_owners_alone_and_of_one_kind(tmp_path):
    public = new_analyst_key(tmp_path / "analyst.key")
    assert (tmp_path / "analyst.key").stat().st_mode & 0o777 == 0o600
    assert public_analyst_key(read_analyst_key(tmp_path / "analyst.key")) == public
    with pytest.raises(PrivotError, match="is there already"):
        new_analyst_key(tmp_path / "analyst.key")
    new_key(tmp_path / "signing.pem")
    with pytest.raises(PrivotError, match=r"another kind: give the campaign's analyst\.key"):
        read_analyst_key(tmp_path / "signing.pem")
    for wrong in ("", "?", "AAAA", public[:-8]):
        with pytest.raises(PrivotError, match=r"no point of P-256.*: give the analyst's"):
            seal_report(drawn(1)[0], wrong)


# The shuffler.


def test_a_shuffler_accepts_sealed_reports_alone_and_each_once(tmp_path):
    plain, reports = drawn(2), sealed(drawn(3))
    known = Report.from_bytes(reports[0])
    renamed = replace(known, id=bytes(16)).to_bytes()
    timed = replace(known, time=5).to_bytes()
    sent = [plain[0].to_bytes(), *reports, renamed, timed]
    read = CAMPAIGN.read(write_batch(sent), as_json=False)
    assert [(each.place, each.reason) for each in read.refused] == [(0, "sealed")]
    assert CAMPAIGN.format.validate(read.records)[0].tolist() == [True] * 3 + [False] * 2
    assert [CAMPAIGN.refusal(place, sent[place]).reason for place in (4, 5)] == ["sealed"] * 2
    assert "seal it to the analyst's public key" in read.refused[0].message
    as_json = {"version": 1, "reports": [known.to_json()]}
    assert len(CAMPAIGN.read(json.dumps(as_json).encode(), as_json=True).records) == 1
    store = opened(tmp_path)
    assert store.append(*rows(reports)).tolist() == [NEW] * 3
    assert store.append(*rows(reports)).tolist() == [DUPLICATE] * 3
    store.close()


def test_roles_are_of_what_randomizers_promise():
    with pytest.raises(PrivotError, match="would see who sent each report: start it with --role"):
        Campaign(TEXT.encode())
    with pytest.raises(PrivotError, match="--role shuffler is of randomizers that promise"):
        ShuffledCampaign(LOCAL.to_json().encode())
    panel = Panel("bits", window=2, start=0, length=3600, seed="public", waves=100)
    with pytest.raises(
        PrivotError, match="--panel 'bits'.*a store of its own.* an address.* a key of its own"
    ):
        ShuffledCampaign(TEXT.encode(), panel=panel)


def test_no_batch_opens_early_and_late_reports_wait_for_the_next(tmp_path):
    reports, store = sealed(drawn(100)), opened(tmp_path)
    store.append(*rows(reports[: PEOPLE - 1]))
    store.append(*rows(reports[: PEOPLE - 1]))  # copies are no people
    assert write(store, tmp_path) is None
    assert not batches(tmp_path)
    store.append(*rows(reports[PEOPLE - 1 : 50]))
    assert write(store, tmp_path) == 50
    store.append(*rows(reports[: 50 + PEOPLE - 1]))  # again, what was in the batch already
    assert write(store, tmp_path) is None
    store.append(*rows(reports[50 + PEOPLE - 1 :]))
    assert write(store, tmp_path) == 50
    first, second = batches(tmp_path)
    assert set(first) == contents(reports[:50])
    assert set(second) == contents(reports[50:])
    store.close()


def test_a_store_that_starts_again_opens_no_report_twice(tmp_path):
    reports, store = sealed(drawn(2 * PEOPLE)), opened(tmp_path)
    store.append(*rows(reports[:PEOPLE]))
    write(store, tmp_path)
    store.append(*rows(reports[PEOPLE : 2 * PEOPLE - 1]))
    store.close()
    store = opened(tmp_path)
    assert store.append(*rows(reports[:PEOPLE])).tolist() == [DUPLICATE] * PEOPLE
    assert write(store, tmp_path) is None
    store.append(*rows(reports[-1:]))
    assert write(store, tmp_path) == PEOPLE
    assert not {*batches(tmp_path)[0]} & {*batches(tmp_path)[1]}
    store.close()


def test_the_order_says_nothing_of_arrival(tmp_path):
    """Ranks in 30 batches of 40: uncorrelated with arrival, and the first may be anywhere.

    A correlation stands at five deviations, as 1 of the order of arrival does at 35. Ten ranks are all
    that 30 firsts have in fewer than C(40, 10) / 4³⁰ = 7e-10 of runs; a fixed place has one.
    """
    ranks = []
    for number in range(30):
        store, folder = opened(tmp_path / str(number)), tmp_path / str(number)
        reports = [
            carrier_of(CAMPAIGN.payloads.fingerprint, os.urandom(width())) for _ in range(PEOPLE)
        ]
        store.append(*rows([each.to_bytes() for each in reports]))
        write(store, folder)
        (batch,) = batches(folder)
        ranks.append([batch.index(each.payload) for each in reports])
        kept = store._connection.execute("SELECT data FROM sealed_ids").fetchall()
        ids = [data[at : at + 16] for (data,) in kept for at in range(0, len(data), 24)]
        assert ids == sorted(ids)
        held = b"".join(path.read_bytes() for path in (folder / "store").iterdir())
        assert not [each for each in reports if each.payload[20:60] in held]
        assert {path.name for path in (folder / "store").iterdir()} <= {
            "reports.db", "reports.db-wal", "order.key",
        }  # fmt: skip
        store.close()
    arrival = np.tile(np.arange(PEOPLE), len(ranks))
    correlation = np.corrcoef(arrival, np.ravel(ranks))[0, 1]
    assert abs(correlation) < 5 / np.sqrt(arrival.size)
    assert len({each[0] for each in ranks}) > 10


def test_no_page_of_the_store_has_a_sealed_report_where_sqlite_does_not_overwrite(
    tmp_path, monkeypatch
):
    """As built by default; Debian's overwrites. What arrives during a sealing has the same pages."""
    connect = sqlite3.connect

    def as_built_by_default(*given, **more):
        connection = connect(*given, **more)
        connection.execute("PRAGMA secure_delete = OFF")
        return connection

    monkeypatch.setattr(sqlite3, "connect", as_built_by_default)
    reports, store = sealed(drawn(50)), opened(tmp_path)
    for each in reports[:PEOPLE]:
        store.append(*rows([each]))
    store.begin_sealing(PEOPLE)
    store.append(*rows(reports[PEOPLE:]))
    write(store, tmp_path)
    held = b"".join(path.read_bytes() for path in (tmp_path / "store").iterdir())
    found = [Report.from_bytes(each).payload[20:60] in held for each in reports]
    assert found == [False] * PEOPLE + [True] * 10
    store.close()


def test_reports_that_wait_for_a_batch_stand_in_the_order_of_their_arrival(tmp_path):
    """What the page says of the shuffler's disk; also of those that no batch takes in the end."""
    reports, store = sealed(drawn(PEOPLE + 10)), opened(tmp_path)
    store.append(*rows(reports[:PEOPLE]))
    write(store, tmp_path)
    for each in reports[PEOPLE:]:
        store.append(*rows([each]))
    store.close()
    held = b"".join(path.read_bytes() for path in sorted((tmp_path / "store").glob("reports.db*")))
    assert not any(Report.from_bytes(each).payload in held for each in reports[:PEOPLE])
    with sqlite3.connect(tmp_path / "store" / "reports.db") as database:
        waiting = database.execute("SELECT data FROM groups ORDER BY number").fetchall()
    assert [data for (data,) in waiting] == reports[PEOPLE:]


def width():
    return CAMPAIGN.format.record_bytes - 62


class Broken(Exception):  # noqa: N818 (stands for a kill)
    """The process ends here."""


@pytest.mark.parametrize("moment", ["begin", "file", "finish"])
def test_a_batch_that_breaks_off_is_written_again_to_its_byte(tmp_path, monkeypatch, moment):
    reports, store = sealed(drawn(50 + PEOPLE)), opened(tmp_path)
    store.append(*rows(reports[:50]))

    def broken(*given, **more):
        raise Broken

    name = {"begin": "taken", "file": "finish_sealing", "finish": None}[moment]
    with monkeypatch.context() as patch:
        if name:
            patch.setattr(FolderStore, name, broken)
            with pytest.raises(Broken):
                write(store, tmp_path)
        else:
            write(store, tmp_path)
    before = batches(tmp_path)
    assert len(before) == (moment != "begin")
    store.append(*rows(reports[50:]))  # of the next batch
    store.close()
    store = opened(tmp_path)
    write(store, tmp_path)
    if moment != "finish":
        assert len(batches(tmp_path)) == 1
        write(store, tmp_path)
    first, second = batches(tmp_path)
    assert before in ([], [first])
    assert set(first) == contents(reports[:50])
    assert set(second) == contents(reports[50:])
    store.close()


def test_a_store_that_is_restored_puts_no_report_into_two_batches(tmp_path):
    """Two batches that differ in few reports tell whose those are."""
    reports, store = sealed(drawn(PEOPLE + 1)), opened(tmp_path)
    store.append(*rows(reports[: PEOPLE - 1]))
    store.close()
    shutil.copytree(tmp_path / "store", tmp_path / "backup")
    store = opened(tmp_path)
    store.append(*rows(reports[PEOPLE - 1 : PEOPLE]))
    assert write(store, tmp_path) == PEOPLE
    store.close()
    (first,) = batches(tmp_path)
    shutil.rmtree(tmp_path / "store")
    shutil.copytree(tmp_path / "backup", tmp_path / "store")
    store = opened(tmp_path)
    store.append(*rows(reports[PEOPLE:]))
    with pytest.raises(PrivotError, match=r"is there with other reports.*an older copy"):
        write(store, tmp_path)
    assert batches(tmp_path) == [first]
    store.close()


def test_damaged_reports_do_not_count_as_people(tmp_path):
    store = opened(tmp_path)
    store.append(*rows(sealed(drawn(PEOPLE))))
    (data,) = store._connection.execute("SELECT data FROM groups").fetchone()
    spoiled = bytes([data[0], data[1], *data[2:60], data[60] ^ 1, *data[61:]])
    store._connection.execute("UPDATE groups SET data = ?", (spoiled,))
    store.close()
    store = opened(tmp_path)
    assert store.count == PEOPLE - 1
    assert write(store, tmp_path) is None
    assert not batches(tmp_path)
    store.close()


def test_reports_that_are_damaged_after_the_beginning_keep_the_batch_closed(tmp_path):
    store = opened(tmp_path)
    store.append(*rows(sealed(drawn(PEOPLE))))
    assert store.begin_sealing(PEOPLE)
    (data,) = store._connection.execute("SELECT data FROM groups").fetchone()
    store._connection.execute("UPDATE groups SET data = ?", (data[:60] + bytes(9) + data[69:],))
    with pytest.raises(PrivotError, match=r"is damaged: 39 reports.*stays closed; restore it"):
        write(store, tmp_path)
    assert not batches(tmp_path)
    store.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_at_any_moment_loses_nothing_and_opens_nothing_early_or_twice(tmp_path, seed):
    """A process that stores and shuffles in turn is killed four times, at moments of chance."""
    rng = random.Random(seed)
    reports = [
        carrier_of(CAMPAIGN.payloads.fingerprint, rng.randbytes(width())).to_bytes()
        for _ in range(1000)
    ]
    acknowledged = 0
    for _ in range(4):
        acknowledged += killed_while_shuffling(tmp_path, reports, acknowledged, rng)
    store = opened(tmp_path)
    assert (store.append(*rows(reports[:acknowledged])) == DUPLICATE).all(), "one was lost"
    store.append(*rows(reports))
    while write(store, tmp_path):
        pass
    found = batches(tmp_path)
    assert min(map(len, found)) >= PEOPLE
    assert Counter(each for batch in found for each in batch).most_common(1)[0][1] == 1
    left = store.count - sum(map(len, found))
    assert 0 <= left < PEOPLE
    assert {each for batch in found for each in batch} <= contents(reports)
    store.close()


def killed_while_shuffling(folder, reports, start, rng):
    """How many more were acknowledged before the kill."""
    read, send = os.pipe()
    if not (child := os.fork()):
        store, at = opened(folder), start
        while at < len(reports):
            size = rng.choice([1, 7, 30])
            store.append(*rows(reports[max(0, at - 20) : at + size]))  # some of them again
            at += size
            os.write(send, min(at, len(reports)).to_bytes(4, "big"))
            write(store, folder)
        os._exit(0)
    os.close(send)
    stop, ends = rng.randrange(1, 20), [start]
    with os.fdopen(read, "rb") as pipe:
        while len(ends) <= stop and (data := pipe.read(4)):
            ends.append(int.from_bytes(data, "big"))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while data := pipe.read(4):
            ends.append(int.from_bytes(data, "big"))
    return ends[-1] - start


# The analyst.


def test_the_analyst_counts_each_possible_report_once_and_names_the_others(tmp_path):
    people, other = drawn(PEOPLE + 5), drawn(1)[0]
    doubled = next(
        each for each in (drawn(1)[0] for _ in range(1000)) if each.payload != people[1].payload
    )
    forged = replace(doubled, id=people[1].id)
    impossible = replace(other, payload=bytes([255]) * len(other.payload))
    hourly = replace(other, time=0).to_bytes()
    stranger = ec.generate_private_key(ec.SECP256R1())
    late = Report(other.fingerprint, other.id, 5, other.payload)
    point = KEY.public_key()
    named = analyst._SUITE.encrypt(late.to_bytes(), point, info=analyst._INFO + other.fingerprint)
    elsewhere = analyst._SUITE.encrypt(hourly, point, info=analyst._INFO + bytes(32))
    reports = [
        *sealed(people),
        *sealed(people[:3]),  # sealed again: copies
        *sealed([forged, impossible]),
        *sealed([other], stranger),
        *(carrier_of(other.fingerprint, each).to_bytes() for each in (named, elsewhere)),
        carrier_of(other.fingerprint, bytes(width())).to_bytes(),
    ]
    path = batch_of(tmp_path, reports)
    found = open_batch(path, RANDOMIZER, KEY)
    assert len(found.release) == len(people)
    assert found.copies == 3
    ids = found.release.table.column("report_id").to_pylist()
    assert set(ids) == {each.id for each in people}
    assert ids == sorted(ids)
    reasons = Counter(found.quarantined["reason"].to_pylist())
    assert reasons.pop("it was sealed to another key, for another campaign, or was damaged") == 3
    assert reasons.pop("it states the hour, which would say who sent it") == 1
    assert reasons.pop("its id is another report's") == 1
    assert sum(reasons.values()) == 1  # the impossible one
    assert found.release.guarantee == RANDOMIZER.batch_guarantee(len(people))


def test_a_report_sealed_again_into_a_later_batch_is_told_from_all_others(tmp_path):
    """Why a device seals once: its id is in both batches, and hides among nobody."""
    mine, others = drawn(1), drawn(2 * PEOPLE - 2)
    store = opened(tmp_path)
    once, again = sealed(mine), sealed(mine)
    store.append(*rows([*once, *sealed(others[: PEOPLE - 1])]))
    assert write(store, tmp_path) == PEOPLE
    assert store.append(*rows(once)).tolist() == [DUPLICATE]
    assert store.append(*rows(again)).tolist() == [NEW]  # nobody without the key can see it
    store.append(*rows(sealed(others[PEOPLE - 1 :])))
    assert write(store, tmp_path) == PEOPLE
    store.close()
    found = [open_batch(file, RANDOMIZER, KEY) for file in sorted(tmp_path.glob("batches/*"))]
    first, second = (set(each.release.table.column("report_id").to_pylist()) for each in found)
    assert first & second == {mine[0].id}


def test_a_sealed_report_of_one_wave_does_not_open_in_the_next(tmp_path):
    """Why each wave has a key of its own: no shuffler sees that its bytes were in another batch."""
    waves = [tmp_path / name for name in ("wave-0", "wave-1")]
    keys = [KEY, ec.generate_private_key(ec.SECP256R1())]
    replayed, others = drawn(3), [drawn(PEOPLE), drawn(PEOPLE)]
    once = sealed(replayed, keys[0])
    for place, key, people in zip(waves, keys, others, strict=True):
        place.mkdir()
        store = opened(place)
        assert store.append(*rows([*once, *sealed(people, key)])).tolist() == [NEW] * (PEOPLE + 3)
        assert write(store, place) == PEOPLE + 3
        store.close()
    first, second = (
        open_batch(place / "batches" / "batch-000000.sealed", RANDOMIZER, key)
        for place, key in zip(waves, keys, strict=True)
    )
    assert (len(first.release), len(first.quarantined)) == (PEOPLE + 3, 0)
    assert (len(second.release), second.copies) == (PEOPLE, 0)
    reason = "it was sealed to another key, for another campaign, or was damaged"
    assert second.quarantined["reason"].to_pylist() == [reason] * 3
    ids = [{*each.release.table.column("report_id").to_pylist()} for each in (first, second)]
    assert {each.id for each in replayed} < ids[0]
    assert not ids[0] & ids[1]
    assert second.release.guarantee == RANDOMIZER.batch_guarantee(PEOPLE)


def test_a_report_that_comes_a_wave_late_hides_among_the_late_alone(tmp_path):
    """Why a wave's address is closed with it: the analyst, who has both keys, sees who is late apart."""
    late, key = drawn(1), ec.generate_private_key(ec.SECP256R1())
    store = opened(tmp_path)  # of the next wave, whose shuffler cannot see it either
    assert set(store.append(*rows([*sealed(late), *sealed(drawn(PEOPLE), key)])).tolist()) == {NEW}
    assert write(store, tmp_path) == PEOPLE + 1
    store.close()
    (batch,) = batches(tmp_path)
    found, _ = analyst._opened(batch, bytes.fromhex(RANDOMIZER.fingerprint), KEY)
    assert [each.id for each in found] == [late[0].id]


@pytest.mark.parametrize(
    "start",
    [b"", b"\xff" * 65, b"\x02" + bytes(31) + b"\x05", b"\x04" + b"\xff" * 64, b"\x06" + bytes(64)],
)
@pytest.mark.parametrize("length", [None, 0, 80, 4000])
def test_what_is_no_seal_does_not_stop_a_batch(tmp_path, start, length):
    """Encapsulated keys that are no points, and other lengths than a shuffler accepts."""
    length = width() if length is None else length
    batch = [*contents(sealed(drawn(PEOPLE))), (start + bytes(length))[:length]]
    (tmp_path / "batch").write_bytes(write_batch(batch))
    found = open_batch(tmp_path / "batch", RANDOMIZER, KEY)
    assert (len(found.release), len(found.quarantined)) == (PEOPLE, 1)


def test_a_batch_of_fewer_than_the_promise_is_refused(tmp_path, monkeypatch):
    path = batch_of(tmp_path, sealed(drawn(PEOPLE - 1)))
    with monkeypatch.context() as patch:
        patch.setattr(analyst, "_opened", None)  # not even opened
        with pytest.raises(PrivotError, match=r"has 39 reports.*opened it too early; none"):
            open_batch(path, RANDOMIZER, KEY)
    some = drawn(PEOPLE - 1)
    path = batch_of(tmp_path, sealed([*some, some[0]]))
    with pytest.raises(PrivotError, match=r"39 reports were accepted.*fewer are not opened"):
        open_batch(path, RANDOMIZER, KEY)


def test_what_cannot_be_opened_is_refused_in_one_line(tmp_path):
    path = batch_of(tmp_path, sealed(drawn(PEOPLE)))
    stranger = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(PrivotError, match="no report of .* opens: give -r and --key"):
        open_batch(path, RANDOMIZER, stranger)
    with pytest.raises(PrivotError, match="promises no shuffled reports"):
        open_batch(path, LOCAL, KEY)
    with pytest.raises(PrivotError, match="cannot be read"):
        open_batch(tmp_path / "nowhere", RANDOMIZER, KEY)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PrivotError, match="is damaged .*: fetch it again"):
        open_batch(path, RANDOMIZER, KEY)


def test_a_collected_batch_is_a_release_and_what_was_dropped_is_named(tmp_path):
    public = new_analyst_key(tmp_path / "analyst.key")
    reports = [seal_report(each, public).to_bytes() for each in drawn(PEOPLE)]
    junk = carrier_of(CAMPAIGN.payloads.fingerprint, bytes(width())).to_bytes()
    path, output = batch_of(tmp_path, [*reports, junk]), tmp_path / "release.parquet"
    with pytest.raises(PrivotError, match="1 reports cannot be counted"):
        collect_batch(path, output, RANDOMIZER, tmp_path / "analyst.key", strict=True)
    assert not output.exists()
    done = collect_batch(path, output, RANDOMIZER, tmp_path / "analyst.key")
    assert (done.num_reports, done.quarantined, done.copies) == (PEOPLE, 1, 0)
    assert re.search("another key", done.quarantine.read_text())
    release = Release.load(output)
    assert release.guarantee.where == "shuffled"
    assert release.guarantee.people == PEOPLE

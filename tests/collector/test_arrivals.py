"""Bodies become records, whatever else is among them; refusals are one line."""

import json

import pytest

from campaign_reports import CAMPAIGN, TEXT, changed, made, resealed
from privot import Randomizer
from privot.collector.arrivals import Campaign, equal_records
from privot.core.errors import PrivotError
from privot.device import Report, read_batch, write_batch
from privot.waves import Panel
from privot.wire.report import WireError


def garbage(report):
    """Reports that are none, with the word for each."""
    return [
        (b"", "length"),
        (report[:-1], "checksum"),
        (report[:40], "length"),
        (report + b"x", "checksum"),
        (bytes([2]) + report[1:], "version"),
        (report[:60] + bytes([report[60] ^ 4]) + report[61:], "checksum"),
        (resealed(report[:1] + bytes(32) + report[33:]), "fingerprint"),
        (resealed(report[:53] + b"\1" + report[54:]), "extension"),
        (Report(report[1:33], bytes(16), 0, b"abc").to_bytes(), "length"),
        (resealed(report[:57] + b"\0" + report[58:]), "length"),
    ]


def arrived(body, as_json=False):
    """Reports that a store accepts of a batch, their places, and all refusals."""
    batch = CAMPAIGN.read(body, as_json)
    data = [row.tobytes() for row in batch.records]
    valid = CAMPAIGN.format.validate(batch.records)[0] if data else []
    refused = [CAMPAIGN.refusal(p, d) for p, d, v in zip(batch.places, data, valid) if not v]
    stored = [(p, d) for p, d, v in zip(batch.places, data, valid) if v]
    return [d for _, d in stored], [p for p, _ in stored], sorted(refused + batch.refused)


def test_good_reports_are_taken_from_among_bad_ones():
    good = made(20)
    bad = garbage(good[0])
    mixed = [part for pair in zip(good, [b for b, _ in bad] * 2) for part in pair]
    stored, places, refusals = arrived(write_batch(mixed))
    assert stored == good
    assert places == list(range(0, 40, 2))
    assert [r.place for r in refusals] == list(range(1, 40, 2))
    for refused, (_, reason) in zip(refusals, bad * 2):
        assert refused.reason == reason
        assert "\n" not in refused.message
        assert ": " in refused.message


@pytest.mark.parametrize("number", range(10))
def test_each_kind_of_garbage_has_its_word(number):
    report = made(1)[0]
    data, reason = garbage(report)[number]
    stored, _, refusals = arrived(write_batch([data]))
    assert [r.reason for r in refusals] == [reason]
    assert not stored


def test_json_and_binary_are_the_same_records():
    reports = made(7)
    fields = {"version": 1, "reports": [Report.from_bytes(r).to_json() for r in reports]}
    fields["reports"][3]["checksum"] = "00000000"
    read = CAMPAIGN.read(json.dumps(fields).encode(), as_json=True)
    assert [row.tobytes() for row in read.records] == reports[:3] + reports[4:]
    assert [(r.place, r.reason) for r in read.refused] == [(3, "checksum")]
    assert len(json.dumps(fields)) < CAMPAIGN.most_bytes(as_json=True)


@pytest.mark.parametrize(
    ("body", "as_json", "reason"),
    [
        (b"", False, "format"),
        (write_batch([]), False, "empty"),
        (write_batch(made(3))[:-1], False, "length"),
        (write_batch(made(1001)), False, "many"),
        (b"\xff", True, "format"),
        (b"[" * 100_000, True, "format"),
        (b"[]", True, "format"),
        (b'{"version": 1}', True, "format"),
        (b'{"version": true, "reports": []}', True, "version"),
        (b'{"version": 1, "reports": {}}', True, "format"),
        (b'{"version": 1, "reports": []}', True, "empty"),
    ],
)
def test_what_is_no_batch_is_refused_as_a_whole(body, as_json, reason):
    with pytest.raises(WireError) as caught:
        CAMPAIGN.read(body, as_json)
    assert caught.value.reason == reason


def test_a_text_that_devices_refuse_is_not_served():
    with pytest.raises(PrivotError, match="not as it was written|altered"):
        Campaign(json.dumps(json.loads(TEXT), indent=1).encode())


def test_a_campaign_without_a_program_is_refused():
    gaussian = Randomizer.calibrate(CAMPAIGN.randomizer.schema, 1.0, 1e-6, mechanism="gaussian")
    with pytest.raises(PrivotError):
        Campaign(gaussian.to_json().encode())


def test_a_signature_beside_the_randomizer_is_served(tmp_path):
    (tmp_path / "randomizer.json").write_text(TEXT)
    assert Campaign.load(tmp_path / "randomizer.json").signature is None
    (tmp_path / "randomizer.json.sig").write_bytes(b"signed")
    assert Campaign.load(tmp_path / "randomizer.json").signature == b"signed"
    with pytest.raises(PrivotError, match="cannot be read"):
        Campaign.load(tmp_path / "nothing.json")


def test_a_body_of_the_most_reports_fits():
    most = CAMPAIGN.most_reports
    assert len(write_batch(made(most))) <= CAMPAIGN.most_bytes(as_json=False)
    assert changed(made(1)[0]) != made(1)[0]


def test_a_campaign_with_a_panel_takes_reports_of_its_waves_alone():
    panel = Panel("people", window=2, start=7200, length=7200, seed="public", waves=3)
    campaign = Campaign(TEXT.encode(), None, panel)
    drawn = [Report.from_bytes(each) for each in made(12)]
    sent = [Report(e.fingerprint, e.id, hour, e.payload).to_bytes() for hour, e in enumerate(drawn)]
    arrivals = campaign.read(write_batch(sent), as_json=False)
    assert arrivals.places == [2, 3, 4, 5, 6, 7]
    assert {(each.place, each.reason) for each in arrivals.refused} == {
        (place, "wave") for place in (0, 1, 8, 9, 10, 11)
    }
    assert campaign.format.waves_of(arrivals.records).tolist() == [0, 0, 1, 1, 2, 2]
    of_ticket = campaign.read(write_batch(sent), as_json=False, until=7200 * 3)
    assert of_ticket.places == [4, 5]
    with pytest.raises(PrivotError, match="within an hour"):
        Campaign(TEXT.encode(), None, Panel("people", 2, 60, 7200, "public"))


def test_a_batch_read_as_a_whole_is_read_as_report_by_report():
    """Whatever byte of it is changed, added or missing: the same records, or none."""
    length = CAMPAIGN.format.record_bytes
    whole = write_batch(made(3))
    bodies = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in range(len(whole))]
    bodies += [whole[:end] for end in range(len(whole))]
    bodies += [whole, whole + b"\0", write_batch([]), whole + bytes(4 + length)]
    found = [equal_records(body, length) for body in bodies]
    assert sum(each is not None for each in found) == 3 * length + 1
    for body, records in zip(bodies, found, strict=True):
        if records is not None:
            assert [row.tobytes() for row in records] == list(read_batch(body))

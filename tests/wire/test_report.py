"""Reports and batches: what is damaged in any byte is refused, and nothing else is."""

import pickle

import pytest

from privot.device import Report, read_batch, write_batch
from privot.wire.report import WireError

REPORT = Report(bytes(range(32)), bytes(range(16, 32)), 495_000, b"payload \x00\xff")


def test_both_forms_say_the_same():
    assert Report.from_bytes(REPORT.to_bytes()) == REPORT
    assert Report.from_json(REPORT.to_json()) == REPORT


def test_a_flipped_bit_anywhere_is_found():
    data = REPORT.to_bytes()
    for place in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(WireError):
            Report.from_bytes(bytes(damaged))


def test_a_report_cut_short_or_continued_is_refused():
    data = REPORT.to_bytes()
    for end in range(len(data)):
        with pytest.raises(WireError):
            Report.from_bytes(data[:end])
    with pytest.raises(WireError):
        Report.from_bytes(data + b"\0")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "version"),
        ({"version": True}, "version"),
        ({"extensions": [1]}, "extension"),
        ({"time": -1}, "format"),
        ({"time": 2**32}, "format"),
        ({"time": 1.0}, "format"),
        ({"time": 495_001}, "checksum"),
        ({"id": "AB" * 16}, "format"),
        ({"id": "ab" * 15}, "format"),
        ({"id": REPORT.id.hex()[:-2] + "  "}, "format"),
        ({"id": REPORT.id.hex()[:-1] + "٣"}, "format"),
        ({"fingerprint": 5}, "format"),
        ({"payload": "%%%"}, "format"),
        ({"payload": None}, "format"),
        ({"payload": REPORT.to_json()["payload"][:-3] + "x=="}, "format"),
        ({"payload": ""}, "checksum"),
        ({"checksum": "00000000"}, "checksum"),
        ({"more": 1}, "format"),
    ],
)
def test_wrong_json_is_refused_with_a_reason(change, reason):
    with pytest.raises(WireError) as refusal:
        Report.from_json(REPORT.to_json() | change)
    assert refusal.value.reason == reason
    assert pickle.loads(pickle.dumps(refusal.value)).reason == reason


@pytest.mark.parametrize("what", [None, [], "text", 3])
def test_what_is_no_object_is_refused(what):
    with pytest.raises(WireError):
        Report.from_json(what)


def test_a_batch_holds_its_reports_to_the_byte():
    reports = [REPORT, Report(REPORT.fingerprint, bytes(16), 0, b"")]
    data = write_batch([reports[0], reports[1].to_bytes()])
    assert [Report.from_bytes(part) for part in read_batch(data)] == reports
    assert list(read_batch(write_batch([]))) == []


def test_no_part_of_a_batch_is_read_where_it_was_cut():
    data = write_batch([REPORT, REPORT])
    for end in range(len(data)):
        with pytest.raises(WireError):
            read_batch(data[:end])
    for wrong in (data + b"x", b"PVTX" + data[4:], data[:4] + b"\2" + data[5:]):
        with pytest.raises(WireError):
            read_batch(wrong)
    huge = data[:5] + b"\xff\xff\xff\xff" + data[9:]
    with pytest.raises(WireError, match="cut short"):
        read_batch(huge)

"""A segment gives back what was flushed, wherever it was cut, and nothing that was not whole."""

import os
import random

import pytest

from campaign_reports import CAMPAIGN, made
from privot.collector.segments import HEADER_BYTES, Disk, Form, Segment, begun, scan, whole_records
from privot.core.errors import PrivotError

FORM = Form(CAMPAIGN.example)


def written(path, reports, disk=None):
    segment = Segment(path, FORM, disk or Disk())
    segment.append(b"".join(reports))
    segment.flush(HEADER_BYTES)
    segment.close()


def read(path):
    return [row.tobytes() for records, _ in whole_records(path, FORM) for row in records]


def test_what_was_written_is_read(tmp_path):
    reports = made(1000)
    written(tmp_path / "a", reports)
    assert begun(tmp_path / "a", FORM)
    assert read(tmp_path / "a") == reports
    assert (tmp_path / "a").stat().st_size == HEADER_BYTES + sum(map(len, reports))


def test_a_segment_cut_anywhere_gives_its_whole_records(tmp_path):
    reports, rng = made(40), random.Random(0)
    length = len(reports[0])
    for _ in range(50):
        path = tmp_path / "a"
        path.unlink(missing_ok=True)
        written(path, reports)
        size = rng.randrange(HEADER_BYTES, path.stat().st_size + 1)
        os.truncate(path, size)
        assert read(path) == reports[: (size - HEADER_BYTES) // length]


def test_a_damaged_record_is_left_out_and_the_others_are_not(tmp_path):
    reports = made(5)
    written(tmp_path / "a", reports)
    with open(tmp_path / "a", "r+b") as file:
        file.seek(HEADER_BYTES + 2 * len(reports[0]) + 50)
        file.write(b"????")
    assert read(tmp_path / "a") == reports[:2] + reports[3:]
    (piece,) = scan(tmp_path / "a", FORM)
    assert piece.right.tolist() == [True, True, False, True, True]


def test_a_header_that_was_never_flushed_is_no_segment(tmp_path):
    (tmp_path / "a").write_bytes(bytes(20))
    assert not begun(tmp_path / "a", FORM)
    (tmp_path / "a").write_bytes(bytes(200))
    with pytest.raises(PrivotError, match="restore it"):
        begun(tmp_path / "a", FORM)


def test_a_write_that_fails_leaves_the_segment_as_it_was(tmp_path):
    class Full(Disk):
        def write(self, handle, data, at):
            if at > HEADER_BYTES:
                super().write(handle, data[:100], at)
                raise OSError(28, "No space left on device")
            super().write(handle, data, at)

    reports = made(3)
    segment = Segment(tmp_path / "a", FORM, Full())
    segment.append(reports[0])
    with pytest.raises(OSError, match="No space"):
        segment.append(b"".join(reports[1:]))
    assert (tmp_path / "a").stat().st_size == segment.size == HEADER_BYTES + len(reports[0])

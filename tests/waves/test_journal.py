"""Journals: whole lines or none, whatever ends a process; other damage is refused."""

import os
import threading

import pytest

from privot import PrivotError
from privot.waves.ledger import locked_journal


def written(path, *lines):
    for line in lines:
        with locked_journal(path) as journal:
            journal.append(line)


def read(path):
    with locked_journal(path) as journal:
        return journal.lines


def test_lines_come_back_and_only_their_owner_reads_them(tmp_path):
    path = tmp_path / "journal"
    written(path, {"a": 1}, {"b": "ü\n"})
    assert read(path) == [{"a": 1}, {"b": "ü\n"}]
    assert path.stat().st_mode & 0o077 == 0


def test_a_line_without_its_end_is_cut_off_at_every_byte(tmp_path):
    path = tmp_path / "journal"
    written(path, {"a": 1})
    whole = path.read_bytes()
    written(path, {"b": 2})
    both = path.read_bytes()
    for end in range(len(whole), len(both)):
        path.write_bytes(both[:end])
        assert read(path) == [{"a": 1}]
        assert path.read_bytes() == whole
    written(path, {"c": 3})
    assert read(path) == [{"a": 1}, {"c": 3}]


@pytest.mark.parametrize("content", [b'{"smokes": true}', b"height,color", b"\xff", b"x" * 40])
def test_another_file_is_left_as_it_is(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(PrivotError, match="line 1 of .* no ledger's"):
        read(path)
    assert path.read_bytes() == content


def test_room_without_content_is_cut_off(tmp_path):
    path = tmp_path / "journal"
    written(path, {"a": 1})
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(100))
    assert read(path) == [{"a": 1}]
    assert path.read_bytes() == whole


def test_a_line_that_was_changed_moved_or_taken_out_is_refused(tmp_path):
    path = tmp_path / "journal"
    written(path, {"a": 1}, {"b": 2}, {"c": 3})
    first, second, third = path.read_bytes().splitlines(keepends=True)
    damaged = [second + third, first + third, first + third + second, first + first + second]
    damaged += [first + second.replace(b"2", b"9") + third, b"\n" + first, b"[]\n", b"nonsense\n"]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(PrivotError, match="is damaged"):
            read(path)
        assert path.read_bytes() == content


def test_what_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "journal"
    written(path, {"a": 1})
    whole, write = path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda handle, text: write(handle, text[:5]))
    with pytest.raises(PrivotError, match="cannot be written"):
        written(path, {"b": 2})
    monkeypatch.undo()
    assert path.read_bytes() == whole
    with pytest.raises(PrivotError, match="cannot be opened"):
        read(tmp_path / "nowhere" / "journal")


def test_a_line_is_flushed_before_anything_follows(tmp_path, monkeypatch):
    path, flushed, fsync = tmp_path / "journal", [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (fsync(handle), flushed.append(path.read_bytes()))
    )
    with locked_journal(path) as journal:
        journal.append({"a": 1})
        assert len(flushed) == 2  # the folder, which has the new file, and the line
        assert flushed[-1] == path.read_bytes() != b""


def test_threads_append_in_turn(tmp_path):
    path = tmp_path / "journal"

    def count():
        for _ in range(5):
            with locked_journal(path) as journal:
                journal.append({"number": len(journal.lines)})

    threads = [threading.Thread(target=count) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert [line["number"] for line in read(path)] == [*range(20)]

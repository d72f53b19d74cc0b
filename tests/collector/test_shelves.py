"""Shelves list and give back what was put there, as a whole or not at all."""

import pytest

from privot.collector.sealing import storage_at


@pytest.mark.parametrize("kind", ["{0}", "file://{0}", "memory://shelf{0}"])
def test_a_file_is_there_as_a_whole_or_not_at_all(tmp_path, kind):
    shelf = storage_at(kind.format(tmp_path / "s"))
    assert shelf.names() == []
    shelf.work.mkdir()
    for text in ("first", "second"):
        with shelf.writing("a.txt") as draft:
            draft.write_text(text)
    with pytest.raises(RuntimeError), shelf.writing("b.txt") as draft:
        draft.write_text("half")
        raise RuntimeError
    assert shelf.names() == ["a.txt"]
    shelf.fetch("a.txt", tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "second"
    shelf.work.rmdir()  # as empty as before

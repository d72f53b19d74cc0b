"""What was sealed is read as it was written, and refused if it was not."""

import pytest

from privot.collector.folder import SealedSoFar
from privot.core.errors import PrivotError


def test_it_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "state.json"
    assert SealedSoFar.read(path) == SealedSoFar()
    state = SealedSoFar(((5, 77), (0, 0)), (3, 2), first=4, sealing=6)
    state.write(path)
    assert SealedSoFar.read(path) == state


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "restore it"),
        ("[]", "restore it"),
        ('{"format": 1}', "restore it"),
        ('{"format": 1, "ids": [], "shards": [], "what": 1}', "restore it"),
        ('{"format": 2, "ids": [], "shards": []}', "upgrade"),
    ],
)
def test_what_is_damaged_is_refused(tmp_path, text, words):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(PrivotError, match=words):
        SealedSoFar.read(tmp_path / "state.json")

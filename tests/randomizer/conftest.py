"""Records in a file, for tests of what streams; audits of one large sample."""

import pytest

from numbered_people import write_people
from privot.audit import law


@pytest.fixture
def raw(tmp_path):
    """Ten thousand numbered people."""
    write_people(tmp_path / "raw.parquet", 10_000)
    return tmp_path / "raw.parquet"


@pytest.fixture
def no_streams(monkeypatch):
    """The same number of tests, and so the same levels, but none of calls, threads and forks."""

    def unseen(randomizer, parts, rng):
        for part in parts:
            yield from [(f"{part.name}: not tested", 1.0)] * 3

    monkeypatch.setattr(law, "_test_streams", unseen)

"""The audit catches every bug that changes the law of a column, by one large sample alone."""

import pytest

from privot.release.audits import law
from release.seeded_bugs import BUGS, caught


@pytest.fixture
def no_streams(monkeypatch):
    """As many questions, and so the same levels, but reports from calls, threads and forks hide all."""

    def unseen(randomizer, parts, rng):
        for part in parts:
            yield from [(f"{part.name}: not asked", 1.0)] * 3

    monkeypatch.setattr(law, "_stream_tests", unseen)


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_seeded_bug_is_caught(bug, no_streams):
    assert caught(bug)

"""The audit catches what no law of single columns shows: noise that repeats, order, ids."""

import pytest

from audit.seeded_bugs import BUGS_OF_SAMPLES, BUGS_OF_STREAMS, caught
from privot.audit import law


@pytest.mark.parametrize("bug", BUGS_OF_SAMPLES.values(), ids=BUGS_OF_SAMPLES)
def test_a_seeded_bug_is_caught(bug, no_streams):
    assert caught(bug)


@pytest.mark.parametrize("name", BUGS_OF_STREAMS)
def test_a_seeded_bug_of_streams_is_caught(name, monkeypatch):
    """Half the noise shows in 384 single reports, as it must; what repeats, or is shifted, in a few."""
    if "half" not in name:
        monkeypatch.setattr(law, "_NUM_SINGLES", 4)
    assert caught(BUGS_OF_STREAMS[name])

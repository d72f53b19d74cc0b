"""The audit catches what no law of single columns shows: noise that repeats, order, ids."""

import pytest

from release.seeded_bugs import MORE_BUGS, caught


@pytest.mark.parametrize("bug", MORE_BUGS.values(), ids=MORE_BUGS)
def test_a_seeded_bug_is_caught(bug):
    assert caught(bug)

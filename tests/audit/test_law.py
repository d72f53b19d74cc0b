"""The audit catches every bug that changes the law of a column, by one large sample alone."""

import pytest

from audit.seeded_bugs import BUGS, caught


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_seeded_bug_is_caught(bug, no_streams):
    assert caught(bug)

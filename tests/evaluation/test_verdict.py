"""Grades go by the limits that are documented, and nothing is blamed for sampling."""

import pytest

from privot.evaluation import verdicts
from privot.evaluation.verdicts import COLUMN, Finding, grade, grade_share, join_names, percent


def test_limits_are_as_documented():
    for word, limits in (("single column", verdicts.COLUMN), ("pair of", verdicts.PAIR)):
        line = next(line for line in verdicts.__doc__.splitlines() if word in line)
        assert [float(part.strip(" ≤")) for part in line.split("|")[2:4]] == list(limits)


@pytest.mark.parametrize(
    ("error", "floor", "expected"),
    [(0.03, 0, "good"), (0.031, 0, "fair"), (0.061, 0, "poor"), (0.061, 0.041, "good")],
)
def test_grades(error, floor, expected):
    assert grade(error, COLUMN, floor) == expected


def test_shares_and_words():
    assert [grade_share(share) for share in (0.9, 0.5, 0.49)] == ["good", "fair", "poor"]
    assert join_names(["a"]) == "a"
    assert percent(0.0996) == "10 %"
    assert str(Finding("pairs", "good", "all of them")) == "pairs: all of them"

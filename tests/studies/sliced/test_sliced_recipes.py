"""Recipes of a trusted curator: releases that are timed."""

from studies.sliced.timing import release_times


def test_releases_are_timed_one_by_one():
    times = release_times(2)
    assert len(times) == 2
    assert min(times) > 0

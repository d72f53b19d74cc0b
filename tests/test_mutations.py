"""Every seeded bug of the mutation table fits the source as it stands; none of them is tried here."""

import ast
from functools import cache
from pathlib import Path

import pytest

from privot_benchmarks.mutations import Mutation, mutations

ROOT = Path(__file__).parents[1]


@cache
def dumped(text):
    return ast.dump(ast.parse(text))


def test_there_are_bugs_of_every_part_each_under_a_name_of_its_own():
    listed = mutations()
    assert len({each.name for each in listed}) == len(listed)
    groups = [each.group for each in listed]
    assert {*groups} == {"mechanisms", "accounting", "ledgers", "estimators", "wire"}
    assert all(groups.count(group) >= 8 for group in groups)


@pytest.mark.parametrize("mutation", mutations(), ids=lambda each: each.name)
def test_a_bug_fits_the_source_and_changes_what_runs(mutation):
    """Its text occurs once, in code; what takes its place is Python; its tests are there."""
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    changed = mutation.applied(text)
    assert ast.dump(ast.parse(changed)) != dumped(text)
    assert all((ROOT / test).exists() for test in mutation.tests)


@pytest.mark.parametrize("text", ["", "a = 1\n", "b = 1\nb = 1\n"])
def test_a_text_that_is_not_there_once_is_refused(text):
    mutation = Mutation("wire", "a bug", "", "file.py", "b = 1", "b = 2", ())
    with pytest.raises(ValueError, match=r"'a bug': file\.py holds its text \d times, not once"):
        mutation.applied(text)

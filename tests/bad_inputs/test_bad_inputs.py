"""Every bad input is refused in one line, and costs nothing that was there."""

import subprocess
import sys

import pytest

from bad_inputs import (
    account,
    audit,
    calibrate,
    central,
    check,
    collect,
    datasets,
    demo,
    evaluate,
    fit,
    integral,
    plan,
    records,
    sample,
    schema,
    usage,
    waves,
)
from bad_inputs.cases import require_refused, run_refused

TABLE = (account, audit, calibrate, central, check, collect, datasets, demo, evaluate, fit, integral,
         plan, records, sample, schema, usage, waves)  # fmt: skip
CASES = [
    pytest.param(case, id=f"{module.__name__.rpartition('.')[2]}: {case.id}")
    for module in TABLE
    for case in module.CASES
]


@pytest.mark.parametrize("case", CASES)
def test_is_refused_in_one_line_and_changes_nothing(workshop, case):
    run_refused(workshop, case)


def test_the_table_is_as_large_as_it_says():
    ids = [case.id for case in CASES]
    assert len(ids) == len(set(ids)) >= 300


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[:: len(CASES) // 20])
def test_the_same_in_a_process_of_its_own(workshop, case):
    (case,) = case if isinstance(case, tuple) else (case,)
    if case.files:
        pytest.skip("its files are those of the other test")
    done = subprocess.run(
        [sys.executable, "-m", "privot", *case.words],
        cwd=workshop,
        input=case.stdin,
        capture_output=True,
        text=True,
    )
    require_refused(done, case.says)

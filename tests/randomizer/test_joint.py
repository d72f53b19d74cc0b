"""Joint reports: their law, what they hide, how they are stored, what is refused."""

import json
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from privot.audit import audit_randomizer
from privot.collector import collect
from privot.core.errors import PrivotError
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.joint import CELLS, SHEET
from privot.randomizer.reports.rows import REPORT_ID, ReportTable
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [0, 99]
integer = true
bins = 5
[columns.sex]
kind = "categorical"
categories = ["F", "M"]
[columns.works]
kind = "boolean"
nullable = true
""")


MIXED = Schema.from_dict(
    SCHEMA.to_dict()
    | {
        "columns": SCHEMA.to_dict()["columns"]
        | {"home": {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 1]]}}
    }
)


def one_person(num):
    """The same record many times: codes 3 of 5, 1 of 2, 2 of 3."""
    return {"age": [70] * num, "sex": ["M"] * num, "works": pa.nulls(num, pa.bool_())}


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_sets_have_the_law_of_subset_selection_over_the_product_alphabet(columns):
    """Every form is equally frequent; the true cell is in with the mechanism's odds.

    The false-alarm rates are 1e-6 of forms, and 1e-7 of all cells, 31 at most: counts are binomial, of
    expectations above 1000, and beyond 6 standard deviations once in 5e8. A true cell that is named 10 %
    more often is detected, but for once in 1e13.
    """
    num = 60_000
    randomizer = Randomizer.calibrate(SCHEMA, 1.0, report_columns=columns)
    joint = randomizer.joint
    answers = randomizer.privatize(one_person(num)).joint_answers
    counts = np.bincount(answers.sheets, minlength=joint.design.num_sheets)
    assert counts.size == 1 or stats.chisquare(counts).pvalue > 1e-6
    truth = {"age": 3, "sex": 1, "works": 2}
    codes, sizes = list(truth.values()), [5, 2, 3]
    for index, chosen in enumerate(combinations(range(3), columns)):
        assert joint.design.questions(index) == tuple((column, 0) for column in chosen)
        shape = tuple(sizes[c] for c in chosen)
        cell = np.ravel_multi_index(tuple(codes[c] for c in chosen), shape)
        mechanism = joint.mechanism(int(np.prod(shape)))
        rows = np.flatnonzero(answers.sheets == index)
        sets = answers.cells[answers.offsets[rows][:, None] + np.arange(mechanism.subset_size)]
        counts = np.bincount(sets.ravel(), minlength=mechanism.num_cells)
        own, other = mechanism.probabilities
        expected = np.where(np.arange(counts.size) == cell, own, other) * len(rows)
        # Sets are without replacement, so counts vary a little less than independent ones.
        spread = (counts - expected) / np.sqrt(expected * (1 - expected / len(rows)))
        assert np.abs(spread).max() < 6
        assert abs(counts[cell] - 1.1 * expected[cell]) > 3 * np.sqrt(expected[cell])


def test_the_drawn_columns_know_nothing_of_the_record():
    num = 30_000
    table = {
        "age": np.repeat([10, 90], num),
        "sex": np.repeat(["F", "M"], num),
        "works": np.repeat([True, False], num),
    }
    # The false-alarm rate is 1e-6.
    answers = Randomizer.calibrate(SCHEMA, 2.0).privatize(table).joint_answers
    counts = np.stack([np.bincount(part) for part in np.split(answers.sheets, 2)])
    assert stats.chi2_contingency(counts).pvalue > 1e-6


def test_the_audit_comes_close_to_the_promise_and_catches_a_larger_set_of_odds(no_streams):
    """False-alarm rate 1e-6; the bound is 1.76 on average, with a standard deviation of 0.03."""
    randomizer = Randomizer.calibrate(SCHEMA, 2.0)
    result = audit_randomizer(randomizer, num_draws=12_000, confidence=1 - 1e-6)
    assert not result.refuted
    assert all(1.5 < column.epsilon_lower <= 2 for column in result.columns)
    from privot.privacy import PureDP

    lying = audit_randomizer(randomizer, PureDP(1.5), num_draws=1000, confidence=1 - 1e-6)
    assert any(column.refuted for column in lying.columns)


def test_json_and_release_round_trip(tmp_path):
    randomizer = Randomizer.calibrate(MIXED, 4.0, report="joint", mechanism="laplace")
    assert Randomizer.from_json(randomizer.to_json()) == randomizer
    table = one_person(300) | {"x": np.linspace(0, 1, 300), "y": np.full(300, 0.5)}
    release = randomizer.privatize(table)
    release.save(tmp_path / "r.parquet")
    again = Release.load(tmp_path / "r.parquet")
    assert again.table.equals(release.table)
    assert again.randomizer == randomizer
    rows = randomizer.expected_noise()
    assert rows[0]["column"] == "1 to 2 of 3 columns, jointly"
    assert rows[1]["column"] == "home"


def test_reports_that_no_device_makes_are_refused(tmp_path):
    release = Randomizer.calibrate(SCHEMA, 1.0).privatize(one_person(20))
    lists = release.table[CELLS].to_pylist()
    path = tmp_path / "r.parquet"

    def refused(changed=None, sheets=None):
        table = release.table
        if changed is not None:
            table = table.set_column(1, CELLS, pa.array(changed, pa.list_(pa.int32())))
        if sheets is not None:
            table = table.set_column(0, SHEET, sheets)
        Release(ReportTable.of(table), release.randomizer).save(path)
        with pytest.raises(PrivotError, match="altered"):
            Release.load(path)

    refused([[*lists[0], 0], *lists[1:]])
    refused([lists[0][::-1] if len(lists[0]) > 1 else [-1], *lists[1:]])
    refused([[10**6] * len(lists[0]), *lists[1:]])
    refused([None, *lists[1:]])
    refused(sheets=pa.array([7] * 20, pa.int32()))
    refused(sheets=pa.array([0] * 20, pa.int64()))
    fields = json.loads(release.randomizer.to_json())
    fields["joint"]["epsilon"] = 0.5
    with pytest.raises(PrivotError, match="was altered"):
        Randomizer.from_json(json.dumps(fields))


def test_a_hundred_columns_and_two_people():
    schema = Schema.from_dict(
        {
            "columns": {
                f"c{i}": {"kind": "categorical", "categories": ["a", "b"]} for i in range(100)
            }
        }
    )
    release = Randomizer.calibrate(schema, 1.0).privatize({f"c{i}": ["a", "b"] for i in range(100)})
    assert len(release.joint_answers.sheets) == 2
    assert release.randomizer.joint.design.num_sheets == 5050  # and each alone


def test_reports_of_many_devices_are_collected_if_one_randomizer_made_them():
    randomizer = Randomizer.calibrate(MIXED, 4.0, report="joint", mechanism="laplace")
    person = one_person(1) | {"x": [0.5], "y": [0.5]}
    parts = [randomizer.privatize(person) for _ in range(5)]
    together = collect(parts).release
    assert len(together) == 5
    assert together.guarantee == parts[0].guarantee
    # In the order of their ids, which is random.
    ids = sorted((part.table[REPORT_ID][0].as_py(), part.table[CELLS][0].as_py()) for part in parts)
    assert list(zip(*together.table.select([REPORT_ID, CELLS]).to_pydict().values())) == ids
    other = Randomizer.calibrate(MIXED, 2.0, report="joint", mechanism="laplace").privatize(person)
    with pytest.raises(PrivotError, match="release 6 was made by another randomizer"):
        collect([*parts, other])
    with pytest.raises(PrivotError, match="sources are empty"):
        collect([])

"""A reservoir holds a uniform sample, whatever the order of the source.

Everything that is wrong with records is reported at once, with its place and an example.
"""

import numpy as np
import pyarrow as pa
import pytest

from numbered_people import people
from privot import Schema
from privot.core.errors import PrivotError
from privot.tables.files import TableBatches
from privot.tables.record_files import check_records, sample_rows


def test_few_rows_are_all_kept_in_their_order():
    rows, total = sample_rows(TableBatches(people(0, 500)), 1000, seed=0)
    assert total == 500
    assert rows.equals(people(0, 500))


def test_of_many_each_is_kept_equally_often():
    pieces = [people(1000 * k, 1000 * (k + 1)) for k in range(20)]
    counts = np.zeros(20)
    for seed in range(20):
        rows, total = sample_rows(TableBatches(pieces), 500, seed)
        drawn = rows["person"].to_numpy()
        assert total == 20_000
        assert len(np.unique(drawn)) == 500
        counts += np.bincount((drawn // 1000).astype(int), minlength=20)
    # Hypergeometric, 500 each with standard deviation 22; seeded, so it holds or not for good.
    assert np.abs(counts - 500).max() < 5 * 22


def test_the_seed_decides():
    sample = [sample_rows(TableBatches(people(0, 5000)), 100, seed)[0] for seed in (1, 1, 2)]
    assert sample[0].equals(sample[1])
    assert not sample[0].equals(sample[2])


def test_nothing_is_refused():
    with pytest.raises(PrivotError, match="has no rows"):
        sample_rows(TableBatches(pa.table({"x": pa.array([], pa.float64())})), 5, 0)


SCHEMA = Schema.from_toml("""
[columns.height]
kind = "numeric"
bounds = [0, 3]
[columns.color]
kind = "categorical"
categories = ["red", "blue"]
""")


def check(**columns):
    return check_records(TableBatches(pa.table(columns)), SCHEMA)


def test_every_kind_of_problem_is_one_finding():
    found = check(
        height=["1", "tall", "nan", "2", "wide"], color=["red", "green", "red", "", "green"]
    )
    assert found.num_rows == 5
    places = {(one.column, one.example): (one.count, one.places) for one in found.findings}
    rows = [f"row {row} of the table" for row in range(1, 6)]
    assert places[("height", "'tall'")] == (2, [rows[1], rows[4]])
    assert places[("color", "'green'")][0] >= 2
    assert sum(one.count for one in found.findings) == 6
    assert found.outside == {}


def test_values_outside_are_counted_and_no_finding():
    found = check(height=[-1.0, 2.0, 9.0], color=["red"] * 3)
    assert (found.findings, found.outside) == ((), {"height": 2})


def test_long_examples_are_cut_and_places_are_three():
    (finding,) = check(height=[1.0] * 9, color=["x" * 500] * 9).findings
    assert len(finding.example) <= 41
    assert (finding.count, len(finding.places)) == (9, 3)


def test_no_rows_are_refused():
    with pytest.raises(PrivotError, match="has no rows"):
        check(height=pa.array([], pa.float64()), color=pa.array([], pa.string()))

"""Reports counted in pieces are counted as they are at once."""

import numpy as np
import pytest

from privot.collector import collect
from privot.local.classes.counts import report_groups
from privot.randomizer import Randomizer, count
from privot.randomizer.reports import rows as report_table_module
from privot.randomizer.reports.counts import Tally
from privot.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "x": {"kind": "categorical", "categories": list("abcdefgh")},
            "y": {"kind": "boolean"},
            "z": {"kind": "numeric", "bounds": [0, 1], "bins": 6, "nullable": True},
        }
    }
)


def test_a_tally_counts_rows_whatever_the_pieces():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 5, (3000, 3)).astype(np.int32)
    tally = Tally()
    for part in np.split(rows, [1, 4, 500, 501, 2999]):
        tally.add(part)
    distinct, counts = tally.total()
    expected, often = np.unique(rows, axis=0, return_counts=True)
    np.testing.assert_array_equal(distinct, expected)
    np.testing.assert_array_equal(counts, often)
    tally.add(rows[:7])
    assert tally.total()[1].sum() == 3007


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_joint_reports_are_counted_piece_by_piece(epsilon, monkeypatch):
    people = {
        "x": list("abcdefgh") * 100,
        "y": [True, False] * 400,
        "z": [0.1, 0.9, None, 0.5] * 200,
    }
    randomizer = Randomizer.calibrate(SCHEMA, epsilon)
    whole = collect([randomizer.privatize(people) for _ in range(3)]).release
    at_once = report_groups(count(whole))
    monkeypatch.setattr(report_table_module.ReportTable.pieces, "__defaults__", (100,))
    assert len(list(whole.pieces())) > 3
    in_pieces = report_groups(count(whole))
    assert len(at_once) == len(in_pieces) == len(randomizer.joint.design.forms)
    for one, other in zip(at_once, in_pieces):
        assert one.queries == other.queries
        np.testing.assert_array_equal(one.counts, other.counts)
        np.testing.assert_array_equal(
            one.factors[0].likelihood.toarray(), other.factors[0].likelihood.toarray()
        )
    assert sum(group.counts.sum() for group in at_once) == 2400

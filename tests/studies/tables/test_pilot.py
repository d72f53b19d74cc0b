"""Two phases: everybody reports once, and what is scored is the sample against people."""

import numpy as np

from privot.schema import Schema
from studies.tables.numbers import diamonds
from studies.tables.pilot import score, two_phases


def test_all_people_report_once_and_typical_numbers_are_the_pilots():
    columns, people = diamonds(1_000, 0)
    few = {name: columns[name] for name in ("carat", "cut")}
    schema = Schema.from_dict({"columns": few})
    model = two_phases(schema, people.select(list(few)), 0.25, 6.0)
    assert [told["reports"] for told in model.made_with["promises"]] == [250, 750]
    (first,) = model.earlier
    assert first.schema == schema
    assert schema.columns["carat"].bins is None
    assert len(model.schema.columns["carat"].typical) == 3


def test_people_themselves_score_nothing():
    columns, people = diamonds(3_000, 0)
    same = score(columns, people, people)
    assert (same["ks"], same["two_way"], same["correlation"]) == (0, 0, 0)
    shuffled = people.set_column(
        0, "carat", [np.random.default_rng(0).permutation(people["carat"])]
    )
    mixed = score(columns, people, shuffled)
    assert mixed["ks"] == 0
    assert mixed["correlation"] > 0.8
    assert mixed["two_way"] > 0.02

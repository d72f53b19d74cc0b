"""A device takes values as the schema does, to the last bit."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest

from conformance.campaigns import CAMPAIGNS
from conformance.records import grids_of, values_of
from privot.core.errors import PrivotError
from privot.device.device import ENCODERS, units_of
from privot.schema import Schema

PEOPLE = 300


def refuses(take, record):
    try:
        ENCODERS[take["take"]](take, record)
    except PrivotError as error:
        return "is out of bounds (" in str(error)
    return False


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda campaign: campaign.name)
def test_devices_and_tables_find_the_same_codes_and_points(campaign):
    randomizer = campaign.randomizer()
    rng = random.Random(campaign.name)
    grids = grids_of(randomizer.program)
    for name, take in randomizer.program["columns"].items():
        records = [values_of(take, grids[name], rng) for _ in range(PEOPLE)]
        column = randomizer.schema.columns[name]
        table = pa.Table.from_pylist(records)
        if table.schema.types[0] == pa.null():
            continue
        if name in randomizer.schema.points:
            problems = column.refused(name, table, "refuse")
            outside = {row for problem in problems for row in np.flatnonzero(problem.rows)}
            assert outside == {row for row, r in enumerate(records) if refuses(take, r)}
            records = [r for row, r in enumerate(records) if row not in outside]
            table = pa.Table.from_pylist(records, table.schema)
        if take["take"] == "point":
            units = column.encode_units(name, table)
            own = [units_of(take, r) or [np.nan] * units.shape[1] for r in records]
            assert np.array_equal(own, units, equal_nan=True)
        else:
            joint = randomizer.joint and name in randomizer.joint.design.columns
            codes = (
                column.encode_codings(name, table).T
                if joint
                else column.encode_codes(name, table)[:, None]
            )
            assert [ENCODERS[take["take"]](take, r) for r in records] == codes.tolist()


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-01", 0),
        ("0001-01-01", -719162),
        ("2000-02-29", 11016),
        ("1969-12-31T23:59:59", -1),
    ],
)
def test_days_are_counted_by_the_calendar(text, days):
    schema = Schema.from_toml(
        '[columns.d]\nkind = "datetime"\nbounds = ["0001-01-01", "9999-12-31"]'
    )
    take = schema.columns["d"].point_program("d")
    wide = json.loads(json.dumps(take)) | {
        "domain": {"area": "box", "lower": [-1e6], "upper": [1e6]}
    }
    assert units_of(wide, {"d": text}) == [days / 1e6]


def test_a_refusal_names_the_column_and_never_the_value():
    take = Schema.from_toml('[columns.n]\nkind = "numeric"\nbounds = [0, 1]').columns["n"]
    for value in ("secret", [1], float("inf"), True, 10**400):
        with pytest.raises(PrivotError) as refusal:
            units_of(take.point_program("n"), {"n": value})
        assert "'n'" in str(refusal.value)
        assert "secret" not in str(refusal.value)

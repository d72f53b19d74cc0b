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


@pytest.mark.parametrize(
    ("fields", "inside", "outside", "limits"),
    [
        ("bounds = [0, 50]\ninteger = true", [0, 50, 1e1], [50.4, 51, -1e-3, 999], "0 to 50"),
        ("bounds = [0.01, 0.07]\ndecimals = 2", [0.01, 0.07], [0.08, 0.0], "0.01 to 0.07"),
        ("bounds = [0.1, 0.3]", [0.1, 0.3], [0.3000001, 1e9], "0.1 to 0.3"),
    ],
)
@pytest.mark.parametrize("bins", ["bins = 2", ""])
def test_a_device_takes_the_bounds_and_nothing_beyond(fields, inside, outside, limits, bins):
    """As bins and as points; rounding errors of steps are no reason to refuse a bound."""
    text = f'[columns.n]\nkind = "numeric"\n{fields}\n{bins}\n'
    schema = Schema.from_toml(text + '[columns.yes]\nkind = "boolean"')
    column = schema.columns["n"]
    takes = [column.code_program("n", column.codings), column.point_program("n")]
    clips = Schema.from_toml(text + 'out_of_bounds = "clip"').columns["n"]
    for take, clip in zip(
        takes, [clips.code_program("n", clips.codings), clips.point_program("n")]
    ):
        ends = [ENCODERS[take["take"]](take, {"n": n}) for n in inside[:2]]
        assert all(ENCODERS[take["take"]](take, {"n": n}) is not None for n in inside)
        for n in outside:
            with pytest.raises(PrivotError) as refusal:
                ENCODERS[take["take"]](take, {"n": n})
            assert str(refusal.value) == f"column 'n' is out of bounds ({limits}): correct it"
            assert ENCODERS[take["take"]](clip, {"n": n}) in ends


def test_a_refusal_names_the_column_and_never_the_value():
    take = Schema.from_toml('[columns.n]\nkind = "numeric"\nbounds = [0, 1]').columns["n"]
    for value in ("secret", [1], float("inf"), True, 10**400):
        with pytest.raises(PrivotError) as refusal:
            units_of(take.point_program("n"), {"n": value})
        assert "'n'" in str(refusal.value)
        assert "secret" not in str(refusal.value)

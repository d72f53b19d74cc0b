"""What devices can draw, that it is as private as promised, and what they cannot."""

from functools import partial
from itertools import product
from math import log

import pytest

from every_word import law_of
from privot import Randomizer, Schema
from privot.device import Device
from privot.randomizer.reports.joint import FormDesign, JointReport

POLYLINE = 'kind = "vector"\ncolumns = ["x", "y"]\nsupport = [[0, 0], [1, 0], [1, 1]]'
IMAGE = 'kind = "array"\nshape = [8, 8]\nbounds = [0, 255]'
CROSS = 'kind = "vector"\ncolumns = ["x", "y"]\nradius = 1.0\nnorm = 1'
NUMBER = 'kind = "numeric"\nbounds = [0, 1]'


@pytest.mark.parametrize(
    ("column", "how"),
    [
        (POLYLINE, {}),
        (CROSS, {}),
        (IMAGE, {}),
        (NUMBER, {"mechanism": "gaussian", "delta": 1e-6}),
    ],
)
def test_a_randomizer_of_what_devices_cannot_draw_has_no_program(column, how):
    randomizer = Randomizer.calibrate(Schema.from_toml(f"[columns.c]\n{column}"), 2.0, **how)
    assert randomizer.program is None
    assert Randomizer.from_json(randomizer.to_json()).fingerprint == randomizer.fingerprint


def test_a_column_that_devices_cannot_draw_keeps_all_from_being_drawn():
    schema = Schema.from_toml(f"[columns.p]\n{POLYLINE}\n[columns.n]\n{NUMBER}")
    assert Randomizer.calibrate(schema, 2.0, report="split").program is None


SCHEMA = """
[columns.number]
kind = "numeric"
bounds = [0, 100]
nullable = true
out_of_bounds = "clip"
{bins}
[columns.listed]
kind = "categorical"
categories = ["a"]
other = "rest"
"""
RECORDS = [
    {"number": number, "listed": listed}
    for number, listed in product([None, -1e9, 0, 30.0, 1e9], ["a", "in no list"])
]


def joint(bins, epsilon):
    schema = Schema.from_toml(SCHEMA.format(bins=bins))
    codings = {n: tuple(c.size for c in column.codings) for n, column in schema.coded.items()}
    design = FormDesign(codings, ((0,), (1,), (0, 1)), (1, 2, 3))
    return Randomizer(schema, {}, joint=JointReport(design, epsilon))


def split(mechanism, epsilon):
    schema = Schema.from_toml(SCHEMA.format(bins="bins = 2"))
    return Randomizer.calibrate(schema, epsilon, report="split", mechanism=mechanism)


@pytest.mark.parametrize(
    "randomizer",
    [
        joint("", 5.0),  # in eight codings
        joint("bins = 2\nspikes = [0]", 0.8),
        split("randomized_response", 2.0),
        split("subset_selection", 1.0),
    ],
)
def test_whole_reports_of_any_two_records_have_the_promised_odds(randomizer):
    """All outcomes of all draws, of values that are missing, not listed, and beyond the bounds."""
    device = Device.from_json(randomizer.to_json())

    def sent(record, word):
        return device.report(record, word=word, now=0).payload

    laws = [law_of(partial(sent, record)) for record in RECORDS]
    chances = [[law[payload] for law in laws] for payload in {p for law in laws for p in law}]
    assert min(map(min, chances)) > 0
    odds = log(max(max(each) / min(each) for each in chances))
    promised = randomizer.guarantee.epsilon
    assert promised - 1e-9 < odds <= promised + 1e-9

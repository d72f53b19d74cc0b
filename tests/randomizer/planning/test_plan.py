"""Plans of whole schemas: what calibration makes is what is planned, each column once."""

import json
from dataclasses import asdict

import pytest

from privot.core.errors import PrivotError
from privot.randomizer import Randomizer, plan_reports
from privot.schema import Schema

HOME = {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 1], [0, 1]]}
LONG = {"kind": "vector", "columns": ["a", "b", "c", "d", "e"], "radius": 1.0}
IMAGE = {"kind": "array", "shape": [12, 12], "bounds": [0, 255]}
DIGIT = {"kind": "categorical", "categories": list("0123456789")}
AGE = {"kind": "numeric", "bounds": [0, 100]}
SCHEMAS = {
    "place": {"home": HOME},
    "number": {"age": AGE},
    "missing number": {"age": AGE | {"nullable": True}},
    "vector": {"v": LONG},
    "image": {"image": IMAGE},
    "labeled image": {"image": IMAGE, "digit": DIGIT},
    "table": {"age": AGE, "digit": DIGIT},
    "table with a place": {"home": HOME, "age": AGE},
    "table with a vector": {"v": LONG, "age": AGE, "digit": DIGIT},
}


@pytest.mark.parametrize("columns", SCHEMAS.values(), ids=SCHEMAS)
def test_what_is_planned_is_what_calibration_makes(columns):
    schema = Schema.from_dict({"columns": columns})
    plan, randomizer = plan_reports(schema, 4.0, 10_000), Randomizer.calibrate(schema, 4.0)
    made = {name: mechanism.requested_kind for name, mechanism in randomizer.mechanisms.items()}
    if randomizer.candidates is not None:
        made |= dict.fromkeys(randomizer.candidates.columns, "candidates")
    planned = {name: part.recommended.report for part in plan.columns for name in part.columns}
    assert planned == made
    assert (plan.table is None) == (randomizer.joint is None)
    if plan.table is not None:
        assert list(plan.table.sizes) == randomizer.joint.asked.columns
        assert plan.table.epsilon == randomizer.joint.epsilon
    spent = sum(part.epsilon for part in plan.columns) + (plan.table.epsilon if plan.table else 0)
    assert spent == pytest.approx(4.0)
    json.dumps(asdict(plan))


def test_errors_of_images_fall_in_epsilon_and_as_the_root_of_people():
    """More ε, or more people, and every error falls."""
    schema = Schema.from_dict({"columns": SCHEMAS["labeled image"]})
    errors = [
        plan_reports(schema, epsilon, people).columns[0].recommended.error
        for epsilon, people in ((2.0, 10_000), (4.0, 10_000), (4.0, 40_000))
    ]
    assert errors[0] > errors[1] == pytest.approx(2 * errors[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [({"epsilon": -1.0}, "epsilon -1.0 promises nothing"), ({"people": 0}, "people 0 cannot be")],
)
def test_refusals(change, message):
    with pytest.raises(PrivotError, match=message):
        plan_reports(
            **{"schema": Schema.from_dict({"columns": {"v": LONG}}), "epsilon": 1.0, "people": 10}
            | change
        )

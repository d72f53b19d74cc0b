"""One budget for a joint report and the columns beside it: never more than ε, and every column once."""

import json

import pytest

from privot.core.errors import PrivotError
from privot.mechanisms import RandomizedResponse
from privot.randomizer import Randomizer
from privot.randomizer.reports.joint import CELLS, FormDesign, JointReport
from privot.randomizer.reports.rows import REPORT_ID
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


@pytest.mark.parametrize("epsilon", [0.5, 1 / 3, 4.0, 8.0])
def test_budgets_are_shared_with_vectors_and_add_up_to_at_most_epsilon(epsilon):
    alone = Randomizer.calibrate(SCHEMA, epsilon)
    assert alone.guarantee.epsilon == epsilon
    assert alone.joint.epsilon == epsilon
    mixed = Randomizer.calibrate(MIXED, epsilon, report="joint", mechanism="laplace")
    assert epsilon * (1 - 1e-9) <= mixed.guarantee.epsilon <= epsilon
    assert mixed.joint.epsilon == pytest.approx(epsilon / 2)
    gaussian = Randomizer.calibrate(MIXED, epsilon, 1e-6, mechanism="gaussian", report="joint")
    assert gaussian.guarantee.epsilon <= epsilon
    assert gaussian.guarantee.delta == 1e-6


def test_a_vector_joins_the_table_s_report_unless_it_is_alone_or_has_a_mechanism():
    together = Randomizer.calibrate(MIXED, 2.0)
    assert together.joint.design.columns == list(MIXED.columns)
    assert together.joint.design.codings["home"] == (256,)
    assert together.guarantee.epsilon == 2.0
    apart = Randomizer.calibrate(MIXED, 2.0, report="joint", mechanism="laplace")
    assert apart.joint.design.columns == list(SCHEMA.columns)
    assert list(apart.mechanisms) == ["home"]
    home = Schema.from_dict({"columns": {"home": MIXED.to_dict()["columns"]["home"]}})
    assert Randomizer.calibrate(home, 2.0).joint is None
    again = Randomizer.from_json(together.to_json())
    assert again == together


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"report": "both"}, "report 'both' is not known"),
        ({"report_columns": 4}, "report_columns 4 is not between 1"),
        ({"delta": 1e-6}, "delta 1e-06 is not needed by a joint report"),
        ({"epsilon": 0.0}, "epsilon 0.0 promises nothing"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(PrivotError) as caught:
        Randomizer.calibrate(SCHEMA, **{"epsilon": 1.0} | arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", [CELLS, REPORT_ID])
def test_a_release_s_own_column_names_are_refused(name):
    schema = Schema.from_toml(f'[columns."{name}"]\nkind = "boolean"')
    with pytest.raises(PrivotError, match="reserved names of a release, for joint reports"):
        Randomizer.calibrate(schema, 1.0)


def test_a_randomizer_whose_columns_were_reordered_or_mixed_up_is_refused():
    """Cells are numbered by the order of columns: another order would be another meaning."""
    randomizer = Randomizer.calibrate(SCHEMA, 1.0)
    fields = json.loads(randomizer.to_json())
    fields["joint"]["codings"] = dict(reversed(fields["joint"]["codings"].items()))
    with pytest.raises(PrivotError, match="was altered"):
        Randomizer.from_json(json.dumps(fields))
    codings = dict(reversed(randomizer.joint.design.codings.items()))
    with pytest.raises(PrivotError, match="in this order"):
        Randomizer(SCHEMA, {}, joint=JointReport(FormDesign.uniform(codings, 2), 1.0))
    split = {"sex": RandomizedResponse(2, 1.0)}
    rest = FormDesign.uniform({"age": (5,), "works": (3,)}, 2)
    with pytest.raises(PrivotError, match="or all of them split"):
        Randomizer(SCHEMA, split, joint=JointReport(rest, 1.0))

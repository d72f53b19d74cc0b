"""Tables as points and back: every kind of column, missing values, refusals that repeat nothing."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from laws.model import ModelLaws
from privot.core.errors import PrivotError
from privot.integral import ClippedRatioSettings, IntegralModel, RecordSpace, fit
from privot.integral.learners import NetworkSettings
from privot.integral.references import Categorical, Normal, SecureGenerator
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [17, 90]
integer = true
[columns.income]
kind = "numeric"
bounds = [0, 100]
nullable = true
[columns.sex]
kind = "categorical"
categories = ["F", "M"]
[columns.owner]
kind = "boolean"
nullable = true
[columns.moved]
kind = "datetime"
bounds = ["2000-01-01", "2020-01-01"]
nullable = true
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 1], [0, 2]]
""")
DAY = dt.date(2005, 3, 1)
TABLE = pa.table(
    {
        "age": [20, 30, 90],
        "income": [1.5, None, 100.0],
        "sex": ["F", "M", "M"],
        "owner": [True, None, False],
        "moved": [DAY, None, DAY],
        "x": [0.5, 0.0, 1.0],
        "y": [1.0, 0.5, 0.25],
    }
)


def test_there_and_back():
    space = RecordSpace(SCHEMA)
    points = space.encode(TABLE, seed=0)
    assert points.shape == (3, space.reference.dim) == (3, 9)
    assert space.reference.contains(points).all()
    assert space.decode(points).to_pydict() == TABLE.to_pydict()


def test_draws_of_the_reference_are_records():
    space = RecordSpace(SCHEMA, missing=0.3)
    table = space.decode(space.reference.sample(2000, SecureGenerator()))
    SCHEMA.check_table(table)
    assert 0.25 < table["income"].null_count / 2000 < 0.35
    assert 0.25 < table["owner"].null_count / 2000 < 0.35
    assert table["age"].type == pa.int64()
    ages = table["age"].to_numpy()
    assert (ages.min(), ages.max()) == (17, 90)
    again = space.decode(space.encode(table, seed=1))
    assert again.to_pydict() == table.to_pydict()


def test_numbers_beyond_the_bounds_are_brought_to_them():
    wild = TABLE.set_column(0, "age", pa.array([0, 30, 1000]))
    assert RecordSpace(SCHEMA).encode(wild, 0)[:, 0].tolist() == [17.0, 30.0, 90.0]


def test_a_missing_number_tells_nothing():
    """It is drawn from its marginal, and its draw is forgotten on the way back."""
    rows = pa.concat_tables([TABLE.slice(1, 1)] * 500)
    filled = RecordSpace(SCHEMA).encode(rows, 0)[:, 1]
    assert 0 <= filled.min() < 5
    assert 95 < filled.max() <= 100


def test_declared_marginals():
    space = RecordSpace(
        SCHEMA, {"sex": Categorical((0.9, 0.1)), "income": Normal(20.0, 5.0, 0.0, 100.0)}
    )
    drawn = space.decode(space.reference.sample(3000, np.random.default_rng(0)))
    assert 0.87 < np.mean(np.array(drawn["sex"].to_pylist()) == "F") < 0.93
    present = drawn["income"].drop_null().to_numpy()
    assert abs(present.mean() - 20) < 1


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sex", ["F", "M", "secret-value"]),
        ("sex", ["F", "M", None]),
        ("age", [20.0, 30.0, None]),
        ("age", [20.0, 31415.0, float("inf")]),
        ("owner", ["true", "perhaps", "false"]),
        ("moved", ["2005-03-01", "secret-value", None]),
    ],
)
def test_refusals_repeat_no_value(name, values):
    index = TABLE.column_names.index(name)
    with pytest.raises(PrivotError, match=f"row [1-3]: column '{name}' ") as refusal:
        RecordSpace(SCHEMA).encode(TABLE.set_column(index, name, pa.array(values)), 0)
    assert "secret-value" not in str(refusal.value)
    assert "31415" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None


def vector(declared):
    return Schema.from_toml(f'[columns.p]\nkind = "vector"\ncolumns = ["x", "y"]\n{declared}')


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RecordSpace(SCHEMA, {"other": Normal()}), "which the schema lacks"),
        (lambda: RecordSpace(SCHEMA, missing=0.0), "missing 0.0"),
        (
            lambda: RecordSpace(SCHEMA, {"sex": Categorical((0.2, 0.3, 0.5))}).reference,
            "has 3 values",
        ),
        (lambda: RecordSpace(vector("radius = 1.0")), "has no bounds"),
        (lambda: RecordSpace(vector("bounds = [[0, 1], [0, 2]]\nnullable = true")), "be missing"),
    ],
)
def test_spaces_are_checked(build, message):
    with pytest.raises(PrivotError, match=message):
        build()


def test_a_table_of_categories_has_an_exact_normalizer(tmp_path):
    schema = Schema.from_toml("""
unit = "household"
[columns.sex]
kind = "categorical"
categories = ["F", "M"]
[columns.size]
kind = "numeric"
bounds = [1, 9]
integer = true
""")
    rng = np.random.default_rng(0)
    table = {"sex": np.where(rng.random(3000) < 0.9, "F", "M"), "size": rng.integers(1, 4, 3000)}
    settings = ClippedRatioSettings(
        network=NetworkSettings(hidden=(32,), steps=300, batch_size=512)
    )
    model = fit(table, schema, epsilon_per_draw=3.0, draws=4000, settings=settings)
    assert model.density.normalizer is not None
    assert model.guarantee.unit == "household"
    model.save(tmp_path / "secret")
    drawn = IntegralModel.load(tmp_path / "secret").sample(3000)
    sizes = drawn["size"].to_numpy()
    assert np.mean(np.array(drawn["sex"].to_pylist()) == "F") > 0.75
    assert np.mean(sizes <= 3) > 0.75


@pytest.mark.parametrize("space", [Schema, RecordSpace])
def test_a_schema_that_promises_another_place_makes_no_draws(space):
    """It would say ε = 0.5 to people, with nobody trusted, of records that a curator has at ε = 20."""
    column = {"kind": "numeric", "bounds": [0, 9]}
    promise = {"epsilon": 0.5, "where": "local"}
    schema = Schema.from_dict({"columns": {"age": column}, "promise": promise})
    table = {"age": np.arange(60) % 9.0}
    with pytest.raises(
        PrivotError, match=r"promises ε = 0\.5, local, not integral privacy: leave \[promise\]"
    ):
        fit(table, schema if space is Schema else space(schema), epsilon=20.0, draws=2)


class TestModel(ModelLaws):
    repeats = False

    @pytest.fixture
    def model(self, tmp_path):
        schema = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 9]')
        model = fit({"age": np.arange(60) % 9.0}, schema, epsilon=200.0, draws=200)
        model.save(tmp_path / "model")
        return model

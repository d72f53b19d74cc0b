import numpy as np
import pyarrow as pa
import pytest
import torch

from central.halves import learn
from privot.central.records import TableRecords
from privot.core.errors import PrivotError
from privot.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "age": {"kind": "numeric", "bounds": [0, 100], "integer": True},
            "pay": {"kind": "numeric", "bounds": [0, 10], "nullable": True, "bins": 4},
            "sex": {"kind": "categorical", "categories": ["F", "M"]},
        }
    }
)


def table():
    return pa.table({"age": [20, 150, 70], "pay": [1.0, None, 9.0], "sex": ["F", "M", "M"]})


def test_rows_lie_in_the_ball_that_the_schema_declares():
    records = TableRecords(SCHEMA, degree=1)
    rows, _ = records.encode(table())
    assert rows.shape == (3, 1 + 5 + 2)
    assert records.features(rows).norm(dim=1).max() <= 1
    assert rows[:, 0].tolist() == pytest.approx([0.2, 1.0, 0.7])
    assert TableRecords(SCHEMA).features(rows).shape == (3, TableRecords(SCHEMA).width)


def test_rows_come_back():
    records = TableRecords(SCHEMA)
    back = records.decode(*records.encode(table()), torch.Generator().manual_seed(0))
    assert back.column("age").to_pylist() == [20, 100, 70]
    assert back.column("sex").to_pylist() == ["F", "M", "M"]
    assert back.column("pay").to_pylist()[1] is None


def test_balls_are_refused():
    schema = Schema.from_dict(
        {"columns": {"v": {"kind": "vector", "columns": ["a", "b"], "radius": 1.0}}}
    )
    with pytest.raises(PrivotError, match="declare bounds"):
        TableRecords(schema)


@pytest.mark.usefixtures("little_noise")
def test_how_columns_go_together_is_learned():
    schema = Schema.from_dict(
        {
            "columns": {
                "age": {"kind": "numeric", "bounds": [0, 100]},
                "sex": {"kind": "categorical", "categories": ["F", "M"]},
            }
        }
    )
    sex = np.array(["F", "M"])[np.arange(400) % 2]
    age = np.where(sex == "F", 30.0, 80.0)
    people = {"age": age, "sex": sex}
    settings = {"steps": 250, "generated": 100, "num_projections": 4}
    table = learn(settings, people, schema).sample(1000, seed=0)
    ages, of = table.column("age").to_numpy(), np.array(table.column("sex").to_pylist())
    assert ages[of == "F"].mean() < ages[of == "M"].mean() - 15

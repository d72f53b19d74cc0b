"""Rows of vectors as points of a cube: there and back, what is beyond bounds, which schemas are such."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from central.mixtures.labeled_points import NAMES, of, schema, table
from privot.central.fitting import kind_of_records
from privot.central.records import VectorRecords
from privot.core.errors import PrivotError
from privot.schema import Schema

VECTORS = VectorRecords(schema())


def test_rows_come_back_within_their_bounds():
    rows = table(50)
    points, labels = VECTORS.encode(rows)
    assert points.shape == (50, 5)
    assert points.abs().max() <= 1
    back = of(VECTORS.decode(points, labels, torch.Generator().manual_seed(0)))
    values, kinds = of(rows)
    assert back[0] == pytest.approx(np.clip(values, -10, 10), abs=1e-5)
    assert (back[1] == kinds).all()


def test_what_lies_beyond_is_moved_to_the_bound():
    far = pa.table({name: [1e9, -30.0] for name in NAMES} | {"kind": ["a", "b"]})
    assert VECTORS.encode(far)[0].tolist() == [[1.0] * 5, [-1.0] * 5]


def test_conditions_name_the_label():
    assert VECTORS.allowed({}).tolist() == [1, 1]
    assert VECTORS.allowed({"kind": "b"}).tolist() == [0, 1]
    for where in ({"kind": "c"}, {"place": 1}):
        with pytest.raises(PrivotError):
            VECTORS.allowed(where)


def test_schemas_of_boxes_and_one_label_are_such():
    truth, number = {"kind": "boolean"}, {"kind": "numeric", "bounds": [0, 1]}
    place = {"kind": "vector", "columns": NAMES, "bounds": [[0, 1]] * 5}
    ball = {"kind": "vector", "columns": NAMES, "radius": 1.0}
    image = {"kind": "array", "shape": [4, 4], "bounds": [0, 1]}
    for columns, wanted in (
        ({"place": place}, True),
        ({"place": place, "x": truth}, True),
        ({"place": place, "x": number}, True),
        ({"place": place, "x": truth, "y": number}, False),
        ({"x": truth}, False),
        ({"place": ball}, False),
        ({"place": place | {"nullable": True}}, False),
        ({"picture": image}, False),
    ):
        assert (kind_of_records(Schema.from_dict({"columns": columns})) == "vectors") == wanted

import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privot.errors import PrivotError
from privot.schema import Schema
from privot.sliced import LabeledImages, TableRecords
from privot.sliced.records import lift, square, unsquare

SCHEMA = Schema.from_dict(
    {
        "columns": {
            "age": {"kind": "numeric", "bounds": [0, 100], "integer": True},
            "pay": {"kind": "numeric", "bounds": [0, 10], "nullable": True, "bins": 4},
            "sex": {"kind": "categorical", "categories": ["F", "M"]},
        }
    }
)


@given(seed=st.integers(0, 2**32), size=st.integers(1, 9), anchor=st.floats(0.01, 100))
def test_squares_lie_on_the_sphere_and_never_point_apart(seed, size, anchor):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(6, size, generator=rng, dtype=torch.float64) * 10
    records = square(lift(x, anchor))
    assert torch.allclose(records.norm(dim=1), torch.ones(6).double(), atol=1e-12)
    assert (records @ records.T).min() > -1e-12
    matrices = unsquare(records)
    lifted = lift(x, anchor)
    assert torch.allclose(matrices, lifted[:, :, None] * lifted[:, None, :], atol=1e-12)


def test_low_pass_is_a_projection():
    images = LabeledImages((6, 5), unit="person", low_pass=3)
    flat = torch.full((1, 6, 5), 0.5)
    assert torch.allclose(images.restore(images.prepare(flat)), flat, atol=1e-6)
    coordinates = images.prepare(0.5 + 0.01 * torch.rand(4, 6, 5).double())
    assert torch.allclose(images.prepare(images.restore(coordinates)), coordinates)


def test_color_images():
    images = LabeledImages((3, 8, 8), unit="person", num_labels=2, low_pass=2)
    assert images.prepare(torch.rand(5, 3, 8, 8)).shape == (5, images.num_coordinates)
    assert images.restore(torch.rand(5, 12)).shape == (5, 3, 8, 8)


def test_pixels_are_non_negative_frequencies_are_not():
    assert LabeledImages((4, 4), unit="person", low_pass=None, degree=1).non_negative
    assert not LabeledImages((4, 4), unit="person", low_pass=2, degree=1).non_negative
    assert LabeledImages((4, 4), unit="person", low_pass=2, degree=2).non_negative


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (4,)}, "give \\(height, width\\)"),
        ({"low_pass": 9}, "low_pass 9"),
        ({"degree": 3}, "degree 3"),
    ],
)
def test_images_refuse(changes, message):
    with pytest.raises(PrivotError, match=message):
        LabeledImages(**{"shape": (4, 4), "unit": "person", "low_pass": 2} | changes)
    with pytest.raises(PrivotError, match="images have shape"):
        LabeledImages((4, 4), unit="person", low_pass=2).prepare(torch.zeros(2, 4, 5))


def table():
    return pa.table({"age": [20, 150, 70], "pay": [1.0, None, 9.0], "sex": ["F", "M", "M"]})


def test_rows_lie_in_the_ball_that_the_schema_declares():
    records = TableRecords(SCHEMA, degree=1)
    rows = records.encode(table())
    assert rows.shape == (3, 1 + 5 + 2)
    assert records.features(rows).norm(dim=1).max() <= 1
    assert rows[:, 0].tolist() == pytest.approx([0.2, 1.0, 0.7])
    assert TableRecords(SCHEMA).features(rows).shape == (3, TableRecords(SCHEMA).width)


def test_rows_come_back():
    records = TableRecords(SCHEMA)
    back = records.decode(records.encode(table()), torch.Generator().manual_seed(0))
    assert back.column("age").to_pylist() == [20, 100, 70]
    assert back.column("sex").to_pylist() == ["F", "M", "M"]
    assert back.column("pay").to_pylist()[1] is None


def test_balls_are_refused():
    schema = Schema.from_dict(
        {"columns": {"v": {"kind": "vector", "columns": ["a", "b"], "radius": 1.0}}}
    )
    with pytest.raises(PrivotError, match="declare bounds"):
        TableRecords(schema)

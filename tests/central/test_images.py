import numpy as np
import pytest
import torch

from central.declared_images import image_records, image_schema, image_table
from privot.central.records import records_of
from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.array import tensor_values


def test_low_pass_is_a_projection():
    images = image_records((6, 5), unit="person", low_pass=3)
    flat = torch.full((1, 6, 5), 0.5)
    assert torch.allclose(images.expand(images.prepare(flat)), flat, atol=1e-6)
    coordinates = images.prepare(0.5 + 0.01 * torch.rand(4, 6, 5).double())
    assert torch.allclose(images.prepare(images.expand(coordinates)), coordinates)


def test_color_images():
    images = image_records((8, 8, 3), num_labels=2, low_pass=2)
    assert images.shape == (3, 8, 8)
    assert images.prepare(torch.rand(5, 3, 8, 8)).shape == (5, images.num_coordinates)
    assert images.expand(torch.rand(5, 12)).shape == (5, 3, 8, 8)


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3)])
def test_images_come_back(shape):
    """Through the schema's bounds and codes; channels stand last in a table, first in records."""
    pixels = np.random.default_rng(0).random((5, *shape), np.float32)
    images = image_records(shape, num_labels=3, low_pass=None)
    values, labels = images.encode(image_table(pixels, [0, 2, 1, 1, 0]))
    assert values.shape[1:] == images.shape
    assert labels.tolist() == [0, 2, 1, 1, 0]
    back = images.decode(values, labels, torch.Generator())
    assert np.allclose(tensor_values(back["image"]), pixels, atol=1e-6)
    assert back["label"].to_pylist() == ["0", "2", "1", "1", "0"]


def test_pixels_are_non_negative_frequencies_are_not():
    assert image_records((4, 4), unit="person", low_pass=None, degree=1).non_negative
    assert not image_records((4, 4), unit="person", low_pass=2, degree=1).non_negative
    assert image_records((4, 4), unit="person", low_pass=2, degree=2).non_negative


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"low_pass": 0}, "low_pass 0"), ({"degree": 3}, "degree 3"), ({"scale": 0.0}, "scale 0.0")],
)
def test_images_refuse(changes, message):
    with pytest.raises(PrivotError, match=message):
        image_records((4, 4), **{"low_pass": 2} | changes)
    with pytest.raises(PrivotError, match="images have shape"):
        image_records((4, 4), low_pass=2).prepare(torch.zeros(2, 4, 5))


@pytest.mark.parametrize(
    "beside",
    [
        {"age": {"kind": "numeric", "bounds": [0, 9]}},
        {"other": {"kind": "array", "shape": [4, 4], "bounds": [0, 1]}},
        {"a": {"kind": "boolean"}, "b": {"kind": "boolean"}},
    ],
)
def test_images_have_one_label_at_most(beside):
    columns = image_schema((4, 4)).to_dict()["columns"] | beside
    with pytest.raises(PrivotError, match="at most one column of categories"):
        records_of(Schema.from_dict({"columns": columns}))

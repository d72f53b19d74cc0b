"""Images in a table: their pixels, shapes and declarations."""

import numpy as np
import pyarrow as pa
import pytest

from labeled_images import records, schema_of
from privot.core.errors import PrivotError
from privot.randomizer import state_noise
from privot.schema import ArrayColumn, ImageDomain, Schema
from privot.schema.columns.array import tensor_array, tensor_values


def test_raw_pixels_and_back():
    column = ArrayColumn(kind="array", shape=(2, 2), bounds=(0, 255))
    raw = np.array([[0, 51, 204, 255]], np.uint8)
    np.testing.assert_allclose(column.to_unit_pixels(raw), [[-1, -0.6, 0.6, 1]])
    np.testing.assert_allclose(column.from_unit_pixels(column.to_unit_pixels(raw)), raw)
    assert column.from_unit_pixels(np.array([[-3.0, 3.0]])).tolist() == [[0.0, 255.0]]


REFUSED = {
    "shape = [8]": "shape \\[8\\] is not an image's",
    "shape = [8, 0]": "shape",
    "shape = [8, 8]\nlow_pass = 4": "declare transform",
    'shape = [8, 8]\ntransform = "dct"\nlow_pass = 9': "low_pass 9 is not between 1 and 8",
    "shape = [8, 8]\nradius = -1": "radius",
    'shape = [8, 8]\ncenter = "lower"': "declare its radius",
    "shape = [8, 8]\nnullable = true": "nullable",
    'shape = [8, 8]\ntransform = "wavelet"': "transform",
}


@pytest.mark.parametrize("lines", REFUSED)
def test_declarations_are_refused(lines):
    text = f'[columns.image]\nkind = "array"\nbounds = [0, 255]\n{lines}'
    with pytest.raises(PrivotError, match=REFUSED[lines]) as refused:
        Schema.from_toml(text)
    assert "\n" not in str(refused.value)


def test_bounds_and_shape_have_to_be_declared():
    with pytest.raises(PrivotError, match="bounds of column 'image' are missing"):
        Schema.from_toml('[columns.image]\nkind = "array"\nshape = [8, 8]')
    with pytest.raises(PrivotError, match="shape of column 'image' is missing"):
        Schema.from_toml('[columns.image]\nkind = "array"\nbounds = [0, 255]')
    with pytest.raises(PrivotError, match="bounds"):
        Schema.from_toml('[columns.image]\nkind = "array"\nshape = [8, 8]\nbounds = [1, 1]')


def test_a_schema_with_images_survives_its_json():
    schema = Schema.from_dict({"columns": {"image": {
        "kind": "array", "shape": [6, 8], "bounds": [0, 255], "radius": 3.0, "center": "lower",
        "transform": "dct", "low_pass": 4,
    }}})  # fmt: skip
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.images["image"].domain == ImageDomain(
        (6, 8), radius=3.0, center_at="lower", low_pass=(4, 4)
    )
    assert schema.coded == {}


IMAGES_REFUSED = {
    "another shape": (np.zeros((5, 6, 4)), "shape 6×4, the schema declares 4×6"),
    "no images": (np.zeros(5), "give an array of shape"),
    "not finite": (np.full((5, 4, 6), np.nan), "row 1: .* not finite"),
}


@pytest.mark.parametrize(("images", "match"), IMAGES_REFUSED.values(), ids=IMAGES_REFUSED.keys())
def test_images_are_refused(images, match):
    randomizer = state_noise(schema_of(), 2.0, 1e-5, shares={"label": 4.0})
    with pytest.raises(PrivotError, match=match):
        randomizer.privatize({"image": images, "label": ["cat"] * 5})


def test_channels_come_last():
    schema = Schema.from_toml('[columns.x]\nkind = "array"\nshape = [4, 6, 3]\nbounds = [0, 1]')
    randomizer = state_noise(schema, 2.0, 1e-5)
    with pytest.raises(PrivotError, match="put channels last"):
        randomizer.privatize({"x": np.zeros((5, 3, 4, 6))})
    assert len(randomizer.privatize({"x": np.zeros((5, 4, 6, 3))})) == 5
    gray = schema_of()
    one = {"image": np.zeros((5, 4, 6, 1)), "label": ["cat"] * 5}
    assert len(state_noise(gray, 2.0, 1e-5, shares={"label": 1.0}).privatize(one)) == 5


def test_missing_images_and_lists_of_numbers():
    randomizer = state_noise(schema_of(), 2.0, 1e-5, shares={"label": 4.0})
    lists = pa.array([list(range(24)), [7] * 24])
    assert len(randomizer.privatize(pa.table({"image": lists, "label": ["cat", "dog"]}))) == 2
    short = pa.array([list(range(24)), [7] * 23])
    with pytest.raises(PrivotError, match="shape 23"):
        randomizer.privatize(pa.table({"image": short, "label": ["cat", "dog"]}))
    gone = pa.array([list(range(24)), None])
    with pytest.raises(PrivotError, match="row 2: .* no image"):
        randomizer.privatize(pa.table({"image": gone, "label": ["cat", "dog"]}))


def test_slices_of_tensors_are_their_own_numbers():
    images = records(10)["image"]
    table = pa.table({"image": tensor_array(images)}).slice(3, 4)
    np.testing.assert_array_equal(tensor_values(table.column("image")), images[3:7])

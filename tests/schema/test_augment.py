"""Drawn images are moved as declared, against SciPy; private ones never are."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.ndimage import affine_transform

from privot.core.errors import PrivotError
from privot.schema import Schema
from privot.schema.columns.array import Augment, tensor_array, tensor_values
from privot.schema.sampling import completed

MOST = {"shift": 1.5, "turn": 10.0, "stretch": 0.1, "shear": 0.2}


def schema(**more):
    column = {"kind": "array", "shape": [7, 9, 2], "bounds": [0, 255]} | more
    return Schema.from_dict({"columns": {"image": column}})


def images(count):
    return np.random.default_rng(0).uniform(0, 255, (count, 7, 9, 2)).astype(np.float32)


def test_every_image_is_moved_by_a_map_of_its_own_as_scipy_would():
    given = images(5)
    found = Augment(**MOST).moved(given, np.random.default_rng(1))
    rng, middle = np.random.default_rng(1), np.array([3.0, 4.0])
    order = ("turn", "stretch", "shear", "shift", "stretch", "shift")
    turns, wider, slants, across, taller, down = (
        rng.uniform(-MOST[name], MOST[name], 5) for name in order
    )
    for i, turn in enumerate(np.radians(turns)):
        linear = np.array([
            [np.cos(turn) / (1 + taller[i]), np.sin(turn)],
            [slants[i] - np.sin(turn), np.cos(turn) / (1 + wider[i])],
        ])  # fmt: skip
        start = middle + np.array([down[i], across[i]]) - linear @ middle
        for channel in (0, 1):
            one = given[i, ..., channel]
            expected = affine_transform(one, linear, start, order=1, mode="nearest")
            assert found[i, ..., channel] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("name", MOST)
def test_each_alone_moves_images_and_keeps_their_range(name):
    given = images(40)
    found = Augment(**{name: MOST[name]}).moved(given, np.random.default_rng(0))
    assert np.median(np.abs(found - given).max(axis=(1, 2, 3))) > 10
    assert found.min() >= 0
    assert found.max() <= 255


def test_samples_are_moved_and_private_images_are_not():
    plain, moved = schema(), schema(augment={"shift": 1})
    table = pa.table({"image": tensor_array(images(20))})
    encoded = [each.columns["image"].encode_units("image", table) for each in (plain, moved)]
    assert (encoded[0] == encoded[1]).all()
    samples = []
    for declared in (plain, moved, moved):
        rng = np.random.default_rng(3)
        drawn = completed(declared, lambda count: iter([table.slice(0, count)]), 20, rng)
        samples.append(tensor_values(pa.concat_tables(drawn).column("image")))
    assert (samples[0] == images(20)).all()
    assert np.abs(samples[1] - samples[0]).mean() > 1
    assert (samples[1] == samples[2]).all()


def test_it_travels_with_the_schema():
    declared = schema(augment={"turn": 8})
    assert Schema.from_json(declared.to_json()) == declared
    assert declared.to_dict()["columns"]["image"]["augment"] == {"turn": 8.0}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "moves nothing: give one of shift, turn, stretch, shear"),
        ({"turn": -1}, "augment turn -1: give a number from 0 to 180"),
        ({"stretch": 1.5}, "augment stretch 1.5: give a number from 0 to 0.9"),
        ({"zoom": 1}, "zoom"),
    ],
)
def test_what_cannot_be_done_is_refused(fields, message):
    with pytest.raises(PrivotError, match=message):
        schema(augment=fields)


def test_of_no_image_nothing_is_made():
    none = np.zeros((0, 3, 3), np.float32)
    assert Augment(turn=1).moved(none, np.random.default_rng(0)).shape == (0, 3, 3)

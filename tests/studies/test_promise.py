"""Rows of maps and of images by place of trust."""

import numpy as np
import pyarrow as pa
import pytest

from privot.schema.columns.array import tensor_array
from studies.promise import images
from studies.promise.places import measure


@pytest.mark.parametrize("where", ["aggregated", "central"])
def test_more_epsilon_is_nearer_to_the_people(where):
    """By 12 runs a place: .036 ± .005 at ε = 30, seven deviations below .07.

    Its logarithm is 6.8 or more deviations below that at ε = .05. A false alarm comes in fewer than one
    run in 10⁹, if both are Gaussian.
    """
    floor, few, many = measure("towns", 0, [0.05, 30.0], [where], None, 3000)
    assert [row["where"] for row in (floor, few, many)] == ["floor", where, where]
    assert many["w2"] < few["w2"]
    assert many["w2"] < 0.07


def squares(count):
    """A bright square for each of ten labels, each at its own place."""
    rng = np.random.default_rng(count)
    labels, pixels = rng.integers(10, size=count), rng.integers(0, 60, (count, 28, 28))
    for image, label in zip(pixels, labels, strict=True):
        top, left = divmod(label, 4)
        image[8 * top : 8 * top + 8, 7 * left : 7 * left + 7] = 200
    return pixels.astype(np.uint8), labels


def test_draws_of_two_servers_and_of_a_curator_teach_a_classifier():
    """All are right, in 7 runs a place, and in 3 at ε = 2, of 3.6 times the noise: a Gaussian vector of
    35 511 numbers is so much longer than usual in fewer than one run in 10⁹. Guessing has .1."""
    x, y = squares(3000)
    people = pa.table({"image": tensor_array(x), "label": [str(label) for label in y]})
    wheres = ["aggregated", "central"]
    servers, curator = images.measure(people, squares(500), 8.0, wheres, 0, samples=2000)
    assert min(servers["accuracy"], curator["accuracy"]) > 0.9
    assert (servers["where"], servers["counts"]) == ("aggregated", 266 * 267 // 2)
    assert "if one of the two servers is honest" in servers["guarantee"]
    assert servers["guarantee"].startswith("ε = 8, δ = 1e-06")
    assert curator["guarantee"] == "ε = 8, δ = 1e-06, replace_one, per person"

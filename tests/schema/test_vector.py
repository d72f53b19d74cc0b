"""Vectors: what is missing comes back as missing, and a gap is refused where none may be."""

import numpy as np
import pyarrow as pa
import pytest

from privot.core.errors import PrivotError
from privot.mechanisms import Laplace, RandomizedResponse
from privot.mechanisms.additive_noise import NullableNoise
from privot.randomizer import Randomizer
from privot.schema import Schema

HOME = {"kind": "vector", "columns": ["x", "y"], "bounds": [[0, 10], [0, 20]], "nullable": True}


SCHEMA = Schema.from_dict(
    {"columns": {"home": HOME, "sex": {"kind": "categorical", "categories": ["F", "M"]}}}
)


PEOPLE = {"x": [1.0, None, 3.0, 30.0], "y": [5.0, 1.0, None, 7.0], "sex": ["F", "M", "F", "M"]}


def test_without_nullable_a_gap_is_refused_and_noise_alone_does_not_fit():
    plain = Schema.from_dict({"columns": {"home": HOME | {"nullable": False}}})
    with pytest.raises(PrivotError, match="row 2: column 'x' has no value"):
        Randomizer.calibrate(plain, 1.0).privatize({"x": [1.0, None], "y": [1.0, 1.0]})
    nullable = Schema.from_dict({"columns": {"home": HOME}})
    noise = Laplace(1.0, 2.0**-19)
    with pytest.raises(PrivotError, match="does not fit column 'home'"):
        Randomizer(nullable, {"home": noise})
    flagged = NullableNoise(noise, RandomizedResponse(2, 1.0))
    with pytest.raises(PrivotError, match="does not fit column 'home'"):
        Randomizer(plain, {"home": flagged})
    with pytest.raises(PrivotError, match="'gaussian' is not for column 'home'"):
        Randomizer.calibrate(nullable, 1.0, 1e-6, mechanism="gaussian")


def test_missing_points_become_nulls_and_are_not_outside():
    column = SCHEMA.point_column("home")
    back = column.decode_points("home", np.array([[np.nan, np.nan], [4.0, 50.0]]))
    assert back["x"].to_pylist() == [None, 4.0]
    assert back["y"].to_pylist() == [None, 20.0]
    table = pa.table({name: PEOPLE[name] for name in ("x", "y")})
    assert column.count_outside("home", table) == 1
    # All may be missing: the column has no type then.
    assert (
        len(
            Randomizer.calibrate(SCHEMA, 1.0).privatize(
                {"x": [None, None], "y": [None, None], "sex": ["F", "M"]}
            )
        )
        == 2
    )

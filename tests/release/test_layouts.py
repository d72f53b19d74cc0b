"""How a table holds reports: all of them come back, and what no device writes is refused."""

import numpy as np
import pyarrow as pa
import pytest

from privot.errors import PrivotError
from privot.release import Release, state_noise
from privot.schema import Schema

LABELED = """
[columns.image]
kind = "array"
shape = [4, 6]
bounds = [0, 255]
{more}
[columns.label]
kind = "categorical"
categories = ["cat", "dog", "eel"]
"""


def schema_of(more=""):
    return Schema.from_toml(LABELED.format(more=more))


def records(num, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (num, 4, 6)).astype(np.uint8)
    return {"image": images, "label": rng.choice(["cat", "dog", "eel"], num)}


SCHEMAS = {
    "pixels": "",
    "coefficients": 'transform = "dct"\nlow_pass = 3',
    "ball": 'radius = 3\ncenter = "lower"\ntransform = "dct"',
}


@pytest.mark.parametrize("more", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_reports_lie_on_the_grid_and_survive_a_file(tmp_path, more, mechanism):
    schema = schema_of(more)
    delta = 1e-5 if mechanism == "gaussian" else 0.0
    randomizer = state_noise(schema, 0.7, delta, mechanism=mechanism, shares={"label": 4.0})
    release = randomizer.privatize(records(300))
    release.save(tmp_path / "release.parquet")
    loaded = Release.load(tmp_path / "release.parquet")
    assert loaded.table.equals(release.table)
    assert loaded.randomizer.to_json() == randomizer.to_json()
    values, reported = loaded.reports("image")
    assert reported.all()
    assert values.dtype == np.float32
    assert values.shape == (300, schema.images["image"].domain.dimension)
    noise = randomizer.mechanisms["image"]
    cells = values.astype(np.float64) / noise.grid
    np.testing.assert_array_equal(cells, np.rint(cells))
    assert np.isfinite(noise.log_likelihood(values, np.zeros(values.shape[1]))).all()


def test_records_are_encoded_before_the_noise():
    """With next to no noise a report is the record: clipped, pulled to the ball, transformed."""
    schema = schema_of('radius = 3\ncenter = "lower"\ntransform = "dct"\nlow_pass = 3')
    data = records(20)
    randomizer = state_noise(schema, 1e-4, 1e-5, shares={"label": 4.0})
    release = randomizer.privatize(data, keep_order=True)
    domain = schema.images["image"].domain
    units = data["image"].reshape(20, -1) / 127.5 - 1
    np.testing.assert_allclose(release.reports("image")[0], domain.encode(units), atol=2e-3)
    assert release.randomizer.count_outside(data)["image"] == 20


def test_altered_files_are_refused(tmp_path):
    release = state_noise(schema_of(), 2.0, 1e-5, shares={"label": 4.0}).privatize(records(5))
    table = release.table
    for bad in (
        pa.array([[np.nan] * 24] * 5, pa.list_(pa.float32(), 24)),
        pa.array([[1.0] * 23] * 5, pa.list_(pa.float32(), 23)),
        pa.array([[1.0] * 24] * 4 + [None], pa.list_(pa.float32(), 24)),
    ):
        altered = Release(
            type(release.rows).of(table.set_column(0, "image", bad)), release.randomizer
        )
        altered.save(tmp_path / "release.parquet")
        with pytest.raises(PrivotError, match="altered"):
            Release.load(tmp_path / "release.parquet")

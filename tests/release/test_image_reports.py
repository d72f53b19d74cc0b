"""Images as records: what is reported, what it promises, what survives a file."""

import numpy as np
import pyarrow as pa
import pytest

from privot.errors import PrivotError
from privot.mechanisms import Gaussian, RandomizedResponse
from privot.mechanisms.additive.additive_noise import choose_grid
from privot.privacy import gaussian_epsilon
from privot.release import Randomizer, Release, as_table, read_table, state_noise, write_table
from privot.release.audits.audit import audit_randomizer
from privot.schema import Schema
from privot.schema.columns.array import tensor_array, tensor_values

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


def test_noise_has_the_stated_size():
    """7 200 values: the deviation's own deviation is 0.83 %, and 6 of them are allowed."""
    schema = schema_of()
    clean = records(300)
    randomizer = state_noise(schema, 2.0, 1e-5, shares={"label": 4.0})
    release = randomizer.privatize(clean, keep_order=True)
    units = clean["image"].reshape(300, -1) / 127.5 - 1
    noise = release.reports("image")[0] - units
    assert noise.std() == pytest.approx(2.0, rel=0.05)
    assert abs(noise.mean()) < 6 * 2 / np.sqrt(7200)


def test_an_image_and_its_label_promise_together_what_both_spend():
    schema = schema_of()
    randomizer = Randomizer(
        schema,
        {"image": Gaussian(2.0, choose_grid(2.0)), "label": RandomizedResponse(3, 1.5)},
        delta=1e-5,
    )
    diameter = 2 * np.sqrt(24)
    expected = gaussian_epsilon(2.0, diameter, 1e-5) + 1.5
    assert randomizer.guarantee.epsilon == pytest.approx(expected, rel=1e-6)
    assert randomizer.guarantee.epsilon >= expected
    assert randomizer.guarantee.delta == 1e-5
    assert state_noise(schema, 2.0, 1e-5, shares={"label": 1.5}) == randomizer


@pytest.mark.parametrize("more", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_shares_are_given_and_the_image_gets_the_rest(more):
    schema = schema_of(more)
    made = Randomizer.calibrate(schema, 10.0, 1e-5, mechanism="gaussian", shares={"label": 4.0})
    assert made.mechanisms["label"] == RandomizedResponse(3, 4.0)
    alone = made.mechanisms["image"].guarantee(schema.images["image"].domain, 1e-5)
    assert alone.epsilon <= 6.0
    assert alone.epsilon == pytest.approx(6.0, rel=1e-6)
    assert 10 * (1 - 1e-6) <= made.guarantee.epsilon <= 10
    pure = Randomizer.calibrate(schema, 10.0, shares={"label": 4.0})
    assert pure.mechanisms["image"].kind == "laplace"
    assert 10 * (1 - 1e-3) <= pure.guarantee.epsilon <= 10
    half = Randomizer.calibrate(schema, 10.0)
    assert half.joint is None
    assert half.mechanisms["label"].epsilon == pytest.approx(5.0)


def test_many_shares_add_up_below_epsilon():
    text = "".join(
        f'[columns.c{i}]\nkind = "categorical"\ncategories = ["a", "b"]\n' for i in range(5)
    )
    schema = Schema.from_toml(text)
    shares = {f"c{i}": 0.1 + i / 7 for i in range(3)}
    made = Randomizer.calibrate(schema, 3.3, shares=shares)
    assert made.guarantee.epsilon <= 3.3
    rest = (3.3 - sum(shares.values())) / 2
    assert made.mechanisms["c4"].epsilon == pytest.approx(rest, rel=1e-9)
    for name, share in shares.items():
        assert made.mechanisms[name].epsilon == share


def test_the_roundings_of_large_shares_are_left_room():
    columns = {name: {"kind": "categorical", "categories": ["x", "y", "z"]} for name in "abc"}
    schema = Schema.from_dict({"columns": columns})
    for epsilon, first, second in (
        (8.267367586850611, 3.0243429491838474, 5.188953658099612),
        (1.835626685309833, 0.9205311299511891, 0.8290082927624928),
    ):
        shares = {"a": first, "b": second}
        made = Randomizer.calibrate(schema, epsilon, report="split", shares=shares)
        assert made.guarantee.epsilon <= epsilon


SHARES_REFUSED = {
    "gaussian": ({"image": 4.0}, "gets what is left"),
    "unknown": ({"race": 4.0}, "unknown"),
    "too much": ({"label": 10.0}, "not between 0 and"),
    "nothing": ({"label": 0.0}, "not between 0 and"),
}


@pytest.mark.parametrize(("shares", "match"), SHARES_REFUSED.values(), ids=SHARES_REFUSED.keys())
def test_shares_are_refused(shares, match):
    with pytest.raises(PrivotError, match=match):
        Randomizer.calibrate(schema_of(), 10.0, 1e-5, mechanism="gaussian", shares=shares)


def test_shares_leave_something_to_somebody():
    with pytest.raises(PrivotError, match="leave nothing"):
        Randomizer.calibrate(schema_of(), 10.0, shares={"label": 4.0, "image": 3.0})
    with pytest.raises(PrivotError, match="use report 'split'"):
        Randomizer.calibrate(schema_of(), 10.0, shares={"label": 4.0}, report="joint")
    with pytest.raises(PrivotError, match="report_columns is 1"):
        Randomizer.calibrate(schema_of(), 10.0, shares={"label": 4.0}, report_columns=1)
    with pytest.raises(PrivotError, match="give the ε of"):
        state_noise(schema_of(), 2.0, 1e-5)
    with pytest.raises(PrivotError, match="'planar_laplace' is not for column 'image'"):
        Randomizer.calibrate(schema_of(), 10.0, mechanism="planar_laplace")


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


@pytest.mark.parametrize("more", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_the_audit_tries_images(more):
    randomizer = state_noise(schema_of(more), 5.0, 1e-3, shares={"label": 1.0})
    result = audit_randomizer(randomizer, num_draws=2000)
    assert not result.refuted
    assert [column.column for column in result.columns] == ["image", "label"]


def test_expected_noise_is_one_number():
    rows = state_noise(schema_of(), 2.0, 1e-5, shares={"label": 4.0}).expected_noise()
    assert rows[0]["stddev"] == pytest.approx(2.0)
    assert "24 pixels" in rows[0]["in_words"]


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


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_tables_with_images_survive_a_file(tmp_path, suffix):
    table = as_table(records(7))
    path = tmp_path / f"records.{suffix}"
    write_table(table, path, schema_of())
    back = read_table(path, schema_of())
    np.testing.assert_array_equal(
        tensor_values(back.column("image")), tensor_values(table.column("image"))
    )
    assert back.column("label").to_pylist() == table.column("label").to_pylist()


def test_text_cannot_hold_images(tmp_path):
    with pytest.raises(PrivotError, match="cannot hold images: give npz"):
        write_table(as_table(records(7)), tmp_path / "records.csv", schema_of())


def test_slices_of_tensors_are_their_own_numbers():
    images = records(10)["image"]
    table = pa.table({"image": tensor_array(images)}).slice(3, 4)
    np.testing.assert_array_equal(tensor_values(table.column("image")), images[3:7])

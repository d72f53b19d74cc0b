"""Fits of images and tables: what each way of learning finds, and what is taken as input."""

import numpy as np
import pytest

from central.declared_images import image_schema, image_table
from central.halves import SCHEMA, data, drawn, learn
from privot.central import SliceSettings, SumSettings
from privot.central.fitting import fit, raw_table, settings_of
from privot.core.errors import PrivotError
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.tables.files import METADATA_KEY

pytestmark = pytest.mark.usefixtures("little_noise")


def sides(model):
    images, labels = drawn(model, 400)
    left, right = images[:, :, :3].mean(axis=(1, 2)), images[:, :, 3:].mean(axis=(1, 2))
    return left - right, labels


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 200, "generated": 60},
        {"steps": 400, "loss": "sliced", "generated": 60},
        {
            "release": "once",
            "orthonormal": True,
            "num_projections": 72,
            "optimizer_steps": 200,
            "generated": 60,
        },
        {
            "release": "once",
            "loss": "entropic",
            "orthonormal": True,
            "num_projections": 72,
            "optimizer_steps": 150,
            "generated": 60,
        },
        {"steps": 200, "neighboring": "zero_out", "generated": 60},
    ],
    ids=["network", "published", "once", "once-entropic", "padded"],
)
def test_classes_are_learned(settings):
    """By ten fits of each or more, a side's mean is .47 to .54 and .02 to .07 its deviation.

    The limit is 3.8 deviations or more away, so that a fit misses it in fewer than 1 of 1000 runs, and
    a second one, whose noise is its own, after it in fewer than 1 of 10⁶. A class that is not learned
    has 0 ± .04, in both.
    """
    if settings.get("release") == "once" or settings.get("loss") == "sliced":
        settings = settings | {"low_pass": None, "degree": 1, "scale": 6.0}
    for _ in range(2):
        model = learn(settings)
        difference, labels = sides(model)
        least = min(difference[labels == 0].mean(), -difference[labels == 1].mean())
        if least > 0.2:
            break
    assert least > 0.2
    assert model.guarantee == model.plan.guarantee


def test_files_and_whole_numbers_of_numpy_are_taken(tmp_path):
    images, labels = data()
    np.savez(tmp_path / "data.npz", image=images.numpy(), label=labels.numpy().astype(np.uint8))
    numbers = {"steps": np.int64(30), "batch_size": np.int32(20), "seed": np.uint8(1)}
    settings = numbers | {"generated": 20}
    model = learn(settings, tmp_path / "data.npz")
    model.save(tmp_path / "model")
    assert len(model.sample(np.int64(3), seed=np.int64(0))) == 3
    for rows in (2.5, -1, float("nan")):
        with pytest.raises(PrivotError, match=r"num_rows .* cannot be"):
            model.sample(rows)


def test_sums_are_the_usual_way_and_slices_of_what_has_no_codes():
    assert settings_of(None, image_schema((6, 6), 2)) == SumSettings()
    table = {"a": {"kind": "numeric", "bounds": [0, 1]}, "b": {"kind": "boolean"}}
    assert settings_of(None, Schema.from_dict({"columns": table})) == SumSettings()
    many = {"kind": "vector", "columns": list("pqrst"), "bounds": [[0, 1]] * 5}
    labeled = Schema.from_dict({"columns": {"b": table["b"], "features": many}})
    assert settings_of(None, labeled) == SumSettings()
    beside = Schema.from_dict({"columns": table | {"features": many}})
    assert settings_of(None, beside) == SliceSettings()
    assert settings_of("slices", labeled) == SliceSettings()
    with pytest.raises(PrivotError, match="method 'sums' cannot learn columns a, b, features"):
        settings_of("sums", beside)
    with pytest.raises(PrivotError, match="method is 'trees'"):
        settings_of("trees", labeled)


def test_a_run_by_sums_goes_on_where_it_was_stopped(tmp_path):
    table, path = image_table(*data()), tmp_path / "run"
    settings = SumSettings(components=2, low_pass=3, residual_low_pass=3)

    def learned(**how):
        return fit(table, SCHEMA, epsilon=8.0, delta=1e-3, method=settings, checkpoint=path, **how)

    class KilledError(Exception):
        pass

    def kill(step, steps, noise):
        if step == 3:
            raise KilledError

    with pytest.raises(KilledError):
        learned(progress=kill)
    steps = []
    model = learned(resume=True, progress=lambda step, steps_, noise: steps.append(step))
    assert steps == [1, 2, 3, 4]
    assert model.releases == 4
    again = learned(resume=True)
    for name, array in model.arrays().items():
        assert (array == again.arrays()[name]).all()
    path.unlink()
    with pytest.raises(PrivotError, match="this run is finished"):
        learned(resume=True)


def test_a_release_is_not_taken_for_raw_records():
    schema = Schema.from_dict({"columns": {"works": {"kind": "boolean"}}})
    release = Randomizer.calibrate(schema, epsilon=1.0).privatize({"works": [True] * 50})
    noised = release.table.replace_schema_metadata({METADATA_KEY: b"{}"})
    with pytest.raises(PrivotError, match="noised already"):
        raw_table(noised, schema)

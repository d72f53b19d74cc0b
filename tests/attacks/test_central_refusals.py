"""What would spend a budget for nothing, or hide that it does, is refused before it is spent."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from central.declared_images import image_records, image_schema, image_table
from privot import integral
from privot.central import SliceSettings, fit
from privot.central.classifiers.adapted import AdaptationSettings
from privot.central.slices import SlicePlan, SlicingMechanism, accounted_grid
from privot.cli.app import app
from privot.core.errors import PrivotError
from privot.integral import ClippedRatioSettings, PointSpace, RecordSpace
from privot.integral.learners import NetworkSettings
from privot.integral.references import Categorical, Normal, Uniform, UniformBox
from privot.privacy.ledger import Ledger
from privot.privacy.slice_accounting import SlicedAccounting
from privot.randomizer import Randomizer
from privot.schema import Schema

TOML = """
[columns.age]
kind = "numeric"
bounds = [0, 100]
[columns.sick]
kind = "boolean"
[columns.place]
kind = "vector"
columns = ["x", "y"]
bounds = [[0, 1], [0, 1]]
"""
SCHEMA = Schema.from_toml(TOML)
TABLE = pa.table(
    {
        "age": np.linspace(1, 99, 60),
        "sick": np.arange(60) % 3 == 0,
        "x": np.linspace(0, 1, 60),
        "y": np.linspace(1, 0, 60),
    }
)


def plain():
    """A schema whose reports are numbers between the bounds, as its records are."""
    return Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]\n')


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "schema.toml").write_text(TOML)
    pq.write_table(TABLE, tmp_path / "people.parquet")
    release = Randomizer.calibrate(SCHEMA, 4.0).privatize(TABLE)
    release.save(tmp_path / "release.parquet")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "central fit release.parquet --schema schema.toml --epsilon 8 -o out",
        "integral fit release.parquet --schema schema.toml --epsilon 8 --draws 2 -o out",
    ],
)
def test_a_release_is_no_raw_table(folder, command):
    done = CliRunner().invoke(app, command.split())
    assert isinstance(done.exception, PrivotError)
    assert "is a release" in str(done.exception)
    assert not list(folder.glob("out*"))


def test_nor_in_python():
    schema = plain()
    release = Randomizer.calibrate(schema, 4.0).privatize({"age": [1.0, 50.0, 99.0]})
    with pytest.raises(PrivotError, match="not a table"):
        fit(release, schema, epsilon=1.0)
    with pytest.raises(PrivotError, match="not a table"):
        integral.fit(release, schema, epsilon=1.0, draws=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 50.0}, r"learning_rate 50.0 is out of range"),
        ({"learning_rate": float("nan")}, "learning_rate nan is out of range"),
        ({"averaging": 1.0}, "averaging 1.0"),
        ({"hidden": (0,)}, "hidden 0 cannot be"),
    ],
)
def test_settings_that_cannot_learn_are_refused_at_once(changes, message):
    with pytest.raises(PrivotError, match=message):
        SliceSettings(**changes)
    with pytest.raises(PrivotError, match=message):
        AdaptationSettings(epsilon=1.0, unit="person", **changes)


@pytest.mark.parametrize("name", ["batch_size", "num_projections", "steps"])
def test_releases_of_nothing_are_refused_at_once(name):
    with pytest.raises(PrivotError, match=f"{name} 0 cannot be"):
        SliceSettings(**{name: 0})


def test_networks_of_densities_learn_at_such_rates_too():
    with pytest.raises(PrivotError, match="learning_rate 2.0"):
        NetworkSettings(learning_rate=2.0)


def test_noise_that_drowns_everything_is_known_before_a_release_is_made(tmp_path):
    """Whether any class could show is a public number: the budget is not spent to find out."""
    images = image_table(np.random.default_rng(0).random((50, 6, 6)))
    budget = {"epsilon": 0.5, "delta": 1e-3}
    with pytest.raises(PrivotError, match="would drown a label's mean; give"):
        fit(images, image_schema((6, 6)), **budget, checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


PIXELS, CLASSES = np.random.default_rng(0).random((200, 6, 6)), np.arange(200) % 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"image": PIXELS, "label": CLASSES + 0.7}, "column 'label'"),
        ({"image": PIXELS, "label": np.where(CLASSES, np.nan, 0.0)}, "column 'label'"),
        ({"image": PIXELS, "label": CLASSES + 1}, "row 2: column 'label'"),
        ({"image": PIXELS}, "'label'.* missing from the table"),
        ({"image": np.where(PIXELS > 0.9, np.nan, PIXELS), "label": CLASSES}, "not finite"),
        ({"image": PIXELS.astype(str), "label": CLASSES}, "image"),
        ({"image": PIXELS[:, :5], "label": CLASSES}, "images of shape 5×6"),
        ({"image": PIXELS[:0], "label": CLASSES[:0]}, "no rows"),
        (3.0, "a float is not a table"),
    ],
)
def test_records_that_cannot_be_are_refused_before_noise_is_sought(
    table, message, tmp_path, monkeypatch
):
    """Calibration takes minutes, and a label that is cut to a whole number is another one."""

    def sought(*_):
        raise AssertionError

    monkeypatch.setattr(SliceSettings, "plan", sought)
    settings = SliceSettings(steps=20, batch_size=20)
    with pytest.raises(PrivotError, match=message) as refusal:
        fit(
            table, image_schema((6, 6), 2), epsilon=8.0, method=settings,
            checkpoint=tmp_path / "run",
        )  # fmt: skip
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "labels", "message"),
    [
        (PIXELS, CLASSES + 0.7, "labels hold values that are no class of num_labels 2"),
        (PIXELS, np.where(CLASSES, np.nan, 0.0), "labels hold values that are no class"),
        (PIXELS, CLASSES - 1, "give whole numbers from 0 to 1"),
        (PIXELS, CLASSES[1:], r"labels of shape \(199,\) do not fit 200 records"),
        (PIXELS, CLASSES.astype(str), "labels are of <U21: give an array of numbers"),
        (PIXELS, None, "labels are missing"),
        ((PIXELS * 255).astype(np.uint8), CLASSES, r"values are torch.uint8: give floats"),
        (torch.ones(200, 6, 6, dtype=torch.int64), CLASSES, r"values are torch.int64"),
        (PIXELS.astype(str), CLASSES, "values are of <U32: give an array of numbers"),
        (PIXELS[:0], CLASSES[:0], "there are no records"),
        (3.0, CLASSES, "there are no records"),
    ],
)
def test_arrays_that_cannot_be_are_refused_by_the_mechanism(values, labels, message):
    images = image_records((6, 6), num_labels=2, low_pass=3)
    dim = images.num_labels * images.width
    accounting = SlicedAccounting(
        dim, 4, 200, 20, non_negative=True, grid=accounted_grid(2.0**-20, 20)
    )
    ledger = Ledger(SlicePlan(accounting, 1.0, 2, 1e-3, 2.0**-20))
    with pytest.raises(PrivotError, match=message):
        SlicingMechanism(values, labels, images, ledger)


def test_an_epsilon_that_buys_nothing_is_said():
    box = UniformBox([0], [100])
    points = np.full((60, 1), 3.0)
    with pytest.warns(UserWarning, match="at most 2.24% of the draws can differ"):
        integral.fit(points, PointSpace(box, "person"), epsilon=1.0, draws=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        integral.fit(points, PointSpace(box, "person"), epsilon=1.0, draws=100)


def test_what_it_buys_is_a_bound_that_is_reached():
    """By records of which all are what 1/(1 + e^(ε/2)) of the reference is."""
    share = 1 / (1 + np.exp(1.0))
    sick = RecordSpace(
        Schema.from_toml('[columns.sick]\nkind = "boolean"'),
        {"sick": Categorical((1 - share, share))},
    )
    model = integral.fit(
        {"sick": [True] * 500}, sick, epsilon_per_draw=2.0, draws=10**6,
        settings=ClippedRatioSettings(estimator="trees"),
    )  # fmt: skip
    drawn = model.density.draw(100_000).mean()
    assert abs(drawn - share) == pytest.approx(np.tanh(2.0 / 4), abs=0.01)


@pytest.mark.parametrize(
    ("column", "marginal", "message"),
    [
        ("age", Normal(40, 10, 18, 90), "excludes some values that the schema allows"),
        ("age", Uniform(0, 99), "excludes some values"),
        ("age", Categorical((0.5, 0.5)), "excludes some values"),
        ("place", Uniform(0, 1), "a vector, cannot be declared"),
    ],
)
def test_a_marginal_holds_all_that_a_column_may_be(column, marginal, message):
    """Else a record decides whether the fit is refused, or the marginal is ignored."""
    with pytest.raises(PrivotError, match=message):
        _ = RecordSpace(SCHEMA, {column: marginal}).reference
    wide = RecordSpace(SCHEMA, {"age": Normal(40, 20, 0, 100)})
    assert wide.reference.marginals[0] == Normal(40, 20, 0, 100)


def test_an_option_that_boosting_would_ignore(folder):
    command = (
        "integral fit people.parquet --schema schema.toml --epsilon 8 --draws 2 --method boost"
    )
    done = CliRunner().invoke(app, [*command.split(), "--estimator", "spline", "-o", "out"])
    assert isinstance(done.exception, PrivotError)
    assert "--method boost cannot use" in str(done.exception)

"""A figure shows every column of a model's records, beside real ones if they are given."""

import numpy as np
import pytest

import privot
from privot import FitSettings, Randomizer, Schema
from privot.core.errors import PrivotError
from privot.models import History
from privot.report.pages import draw_loss
from privot.schema.columns.array import tensor_array

SCHEMA = Schema.from_toml("""
[columns.home]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = [[0, 4], [10, 20]]
[columns.weight]
kind = "vector"
columns = ["kilograms"]
bounds = [[0, 9]]
[columns.color]
kind = "categorical"
categories = ["red", "blue"]
""")


def people(num_people=200):
    rng = np.random.default_rng(0)
    return {
        "longitude": rng.uniform(0, 4, num_people),
        "latitude": rng.uniform(10, 20, num_people),
        "kilograms": rng.uniform(0, 9, num_people),
        "color": rng.choice(["red", "blue"], num_people, p=[0.9, 0.1]),
    }


@pytest.fixture(scope="module")
def model():
    release = Randomizer.calibrate(SCHEMA, 8.0, report="split").privatize(people())
    return privot.fit(release, FitSettings(steps=3, batch_size=20, hidden=(4,)))


def titles(figure):
    return [axis.get_title(loc="left") for axis in figure.axes]


def test_a_panel_for_each_column(model):
    figure = privot.plot(model, num_rows=100)
    assert titles(figure) == ["home", "kilograms", "color"]
    plane, density, bars = figure.axes
    assert (plane.get_xlabel(), plane.get_ylabel()) == ("longitude", "latitude")
    assert plane.collections[0].get_array().sum() == 100
    assert [text.get_text() for text in density.get_legend().get_texts()] == ["synthetic"]
    assert len(bars.patches) == 2
    assert sum(bar.get_width() for bar in bars.patches) == pytest.approx(1)


def test_real_records_stand_beside_on_the_same_scale(model):
    figure = privot.plot(model, people(), num_rows=100)
    assert titles(figure) == ["home, synthetic", "home, real", "kilograms", "color"]
    synthetic, real, density, bars = figure.axes
    assert synthetic.get_xlim() == real.get_xlim()
    assert real.collections[0].get_array().sum() == 200
    assert len(density.get_legend().get_texts()) == 2
    shares = [bar.get_width() for bar in bars.patches[:2]]
    labels = [text.get_text() for text in bars.get_yticklabels()]
    told = np.mean(people()["color"] == "red")
    assert dict(zip(labels, shares, strict=True)) == pytest.approx({"red": told, "blue": 1 - told})


def test_records_of_another_schema_are_refused(model):
    with pytest.raises(PrivotError, match="color"):
        privot.plot(model, {"longitude": [1.0]}, num_rows=10)


def test_images_stand_side_by_side():
    schema = Schema.from_toml('[columns.ink]\nkind = "array"\nshape = [3, 5]\nbounds = [0, 1]')
    table = {"ink": tensor_array(np.random.default_rng(0).random((40, 3, 5), np.float32))}
    release = Randomizer.calibrate(schema, 50.0, mechanism="laplace").privatize(table)
    model = privot.fit(release, FitSettings(steps=2, batch_size=10, hidden=(4,)))
    figure = privot.plot(model, num_rows=36)
    (axis,) = figure.axes
    assert axis.images[0].get_array().shape == (6 * 4 - 1, 6 * 6 - 1)


def test_a_loss_is_drawn_without_its_first_fall():
    losses = [1000.0, *np.linspace(5, 4, 39)]
    history = History([(i, loss, 1e-3, 0.0, 0.0) for i, loss in enumerate(losses)])
    low, high = draw_loss(history).axes[0].get_ylim()
    assert 3.9 < low < 4
    assert 5 < high < 5.1

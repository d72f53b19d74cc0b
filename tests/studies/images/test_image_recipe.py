"""The recipe for images: rows of one ε, learned in a given time, judged and written."""

import json

import pytest
import torch

from made_up_images import bars
from privot.core.errors import PrivotError
from privot.demo.datasets import LabeledImages
from privot.privacy import gaussian_epsilon
from studies.common.image_features import ImageClassifier, save_classifier
from studies.common.image_recipe import Recipe
from studies.images import recipe as image_recipe
from studies.images.page import tables_of
from studies.images.recipe import DELTA, ROWS, Noise, learned_from, randomizer_of, run_recipe


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.setattr(image_recipe, "NUM_JUDGED", 100)
    monkeypatch.setattr("studies.common.image_recipe.NUM_JUDGED", 100)
    monkeypatch.setattr(image_recipe, "_TIMED_STEPS", 1)
    monkeypatch.setattr(image_recipe, "_FEWEST_STEPS", 3)
    monkeypatch.setattr(image_recipe, "_STEPS_OF_REGRESSION", 100)
    classifier = tmp_path / "judge.safetensors"
    save_classifier(ImageClassifier(), classifier)
    recipe = Recipe("recipe", None, tmp_path / "out", classifier_file=classifier)
    recipe.__dict__["images"] = LabeledImages("bars", *bars(450, 0), *bars(150, 1))
    return recipe


def test_all_rows_have_the_epsilon_of_the_box():
    image = gaussian_epsilon(2.0, 56.0, DELTA)
    plain, labeled, ball, masked = (
        randomizer_of(ROWS[name], Noise(2.0))
        for name in ("plain", "labeled", "ball", "ball_low_pass")
    )
    assert plain.guarantee.epsilon == pytest.approx(image, rel=1e-3)
    for randomizer in (labeled, ball, masked):
        assert image < randomizer.guarantee.epsilon < image + 4.5
        assert randomizer.guarantee.epsilon == pytest.approx(labeled.guarantee.epsilon, rel=1e-3)
    assert labeled.mechanisms["image"].stddev == 2.0
    assert ball.mechanisms["image"].stddev == pytest.approx(2 * 25 * 2**0.5 / 56, rel=1e-6)
    assert masked.schema.images["image"].domain.dimension == 196


@pytest.mark.parametrize("name", ["labeled", "ball", "ball_low_pass"])
def test_a_row_has_the_epsilon_that_is_asked_for(name):
    noise = Noise(delta=1e-4, epsilon=35.0)
    found = randomizer_of(ROWS[name], noise).guarantee
    assert found.epsilon == pytest.approx(35, rel=1e-4)
    assert found.epsilon <= 35
    assert found.delta == 1e-4


def test_a_row_is_judged_and_written(recipe):
    written = run_recipe(recipe, Noise(2.0), 0.01, ("plain", "low_pass"))
    on_disk = json.loads((recipe.output / "recipe_mnist_stddev2_0.01s.json").read_text())
    assert on_disk["rows"] == written["rows"]
    assert (recipe.output / "recipe_mnist_stddev2_0.01s.png").stat().st_size > 1000
    plain, labeled = written["rows"]
    assert "accuracy" not in plain
    assert 0 <= labeled["accuracy"] <= 1
    assert plain["steps"] >= 3
    assert labeled["steps"] >= 3


def test_accuracy_is_that_of_the_labels_learned_from(recipe):
    images, labels = recipe.clean, recipe.images.y_train
    assert learned_from(images, labels, recipe) > 0.95
    assert learned_from(images, 1 - labels, recipe) < 0.05
    blank = torch.zeros_like(images)
    assert 0.3 < learned_from(blank, labels, recipe) < 0.7


def test_the_page_says_which_row_is_best(tmp_path):
    row = {
        "stddev": 2.0, "epsilon": 500.0, "cpu_seconds": 9.0, "steps": 5, "spread": 0.96,
        "precision": 1.0, "recall": 1.0, "coverage": 1.0,
    }  # fmt: skip
    run = {
        "stddev": 2.0, "of_epsilon": None, "seconds_of_cpu": 10.0, "delta": 1e-5,
        "floor": {"frechet": 1.0},
        "clean_accuracy": 0.9, "label_epsilon": 4.0, "command": "",
        "seed": 0, "seconds": 1.0, "cores": 2, "date": "",
        "rows": [
            row | {"name": "plain", "frechet": 70.0},
            row | {"name": "labeled", "frechet": 10.0, "accuracy": 0.79},
            row | {"name": "ball", "frechet": 14.0, "accuracy": 0.9},
        ],
    }  # fmt: skip
    path = tmp_path / "recipe_mnist.json"
    path.write_text(json.dumps(run))
    found = tables_of(tmp_path)["summary"]()
    assert "| 2 | labeled | 9 | 10.0 | 1/7.0 | 0.960 | 0.790 |" in found
    assert "| ball |" not in found
    run["rows"][1]["frechet"], run["rows"][2]["frechet"] = 14.0, 10.0
    path.write_text(json.dumps(run))
    found = tables_of(tmp_path)["summary"]()
    assert "| 2 | labeled | 9 | 14.0 | 1/5.0 |" in found
    assert "| 2 | ball | 9 | 10.0 | 1/7.0 |" in found
    with pytest.raises(PrivotError, match="has no rows"):
        tables_of(tmp_path / "empty")

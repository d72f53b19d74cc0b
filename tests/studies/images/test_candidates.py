"""Labeled images under pure local ε: one row with its sheet, from the devices to the page."""

import json

import pytest

from made_up_images import bars
from privot.demo.datasets import LabeledImages
from studies.common.image_recipe import Recipe
from studies.common.rows import read_rows
from studies.images import candidates
from studies.images.page import candidates as table_of
from studies.images.page import over_seeds
from studies.recipes import parser_of


@pytest.mark.slow
def test_a_classifier_of_samples_tells_bars_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(candidates, "_SAMPLES", 1500)
    recipe = Recipe("candidates", None, tmp_path)
    recipe.__dict__["images"] = LabeledImages("bars", *bars(4000, 0), *bars(300, 1))
    row = candidates.run_candidates(recipe, 10.0)
    assert row["guarantee"] == "ε = 10 (pure), local, per person"
    assert row["accuracy"] > 0.8
    assert 0.6 < row["named"] <= 1
    written = json.loads((tmp_path / "candidates_mnist_epsilon10.json").read_text())
    assert written["accuracy"] == row["accuracy"]
    assert (tmp_path / "candidates_mnist_epsilon10.png").stat().st_size > 1000
    text = table_of(read_rows(tmp_path, "candidates"), tmp_path)
    assert f"| mnist | 10 | 0 | {row['accuracy']:.3f} |" in text
    assert table_of([], tmp_path) == ""
    rows = [row | {"dataset": "mnist", "accuracy": accuracy} for accuracy in (0.8, 0.81, 0.9)]
    assert "| mnist | 10 | 3 | 0.837 ± 0.050 |" in over_seeds(rows)


@pytest.mark.parametrize("given", [[], ["--epsilon", "3"]])
def test_the_command_takes_some_epsilon(given):
    assert parser_of("images.candidates").parse_args(given).epsilon == ([3.0] if given else None)

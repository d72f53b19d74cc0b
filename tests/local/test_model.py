"""Models of releases, of both estimators, satisfy the laws of models."""

import numpy as np
import pytest

from laws.model import ModelLaws
from privot import Randomizer, Schema
from privot.local import FitSettings, fit

SCHEMA = Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [0, 100]
bins = 5
[columns."<b>color</b>"]
kind = "categorical"
categories = ["red", "blue"]
""")


def release(report):
    rng = np.random.default_rng(0)
    people = {"age": rng.uniform(0, 100, 300), "<b>color</b>": rng.choice(["red", "blue"], 300)}
    return Randomizer.calibrate(SCHEMA, 4.0, report=report).privatize(people)


class TestLatentClasses(ModelLaws):
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls):
        return fit(release("joint"))

    def test_its_table_in_a_notebook_is_escaped(self, model):
        assert "<b>" not in model._repr_html_()
        assert "&lt;b&gt;color&lt;/b&gt;" in model._repr_html_()

    def test_a_condition_is_met(self, model):
        assert set(model.sample(50, where={"<b>color</b>": "red"})["<b>color</b>"].to_pylist()) == {
            "red"
        }


class TestGenerators(ModelLaws):
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls):
        return fit(release("split"), FitSettings(estimator="generator", steps=3, batch_size=20))

"""Models learned through slices satisfy the laws of models."""

import numpy as np
import pytest

import privot
from laws.model import ModelLaws
from privot import Schema

SCHEMA = Schema.from_toml("""
[columns.height]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
""")


class TestSlicedTables(ModelLaws):
    @pytest.fixture
    def model(self):
        rng = np.random.default_rng(0)
        people = {"height": rng.uniform(0, 10, 80), "color": rng.choice(["red", "blue"], 80)}
        settings = privot.sliced.SlicedSettings(steps=3, batch_size=20, hidden=(8,))
        return privot.sliced.fit(people, SCHEMA, epsilon=50.0, delta=1e-3, settings=settings)

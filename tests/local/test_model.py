"""Models of releases, of both estimators, satisfy the laws of models.

Conditions are read in the schema's words, and what is drawn meets them.
"""

import numpy as np
import pytest
import torch

from laws.model import ModelLaws
from privot import Randomizer, Schema
from privot.core.errors import PrivotError
from privot.local import FitSettings, fit
from privot.local.model import read_condition
from privot.local.networks.generator_fit import GeneratorSampler
from privot.local.networks.heads import Head
from privot.mechanisms import Laplace, RandomizedResponse
from privot.training.generators import MLP

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


SAMPLERS_SCHEMA = Schema.from_toml("""
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
nullable = true
[columns.old]
kind = "boolean"
[columns.height]
kind = "vector"
columns = ["meters"]
bounds = [[0, 2]]
""")


def test_a_condition_is_read():
    labels = SAMPLERS_SCHEMA.coded["color"].labels
    condition = read_condition(SAMPLERS_SCHEMA, {"color": ["blue", None], "old": True})
    assert {labels[code] for code in condition["color"]} == {"blue", "(missing)"}
    assert [SAMPLERS_SCHEMA.coded["old"].labels[code] for code in condition["old"]] == ["true"]
    assert read_condition(SAMPLERS_SCHEMA, {"color": "red"}) == {"color": [labels.index("red")]}


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"size": 1}, "where names column 'size'"),
        ({"color": "pink"}, "where gives column 'color' the value 'pink'"),
        ({"height": 1.0}, "where names column 'height'"),
    ],
)
def test_what_the_schema_does_not_declare_is_refused(where, words):
    with pytest.raises(PrivotError, match=words):
        read_condition(SAMPLERS_SCHEMA, where)


def test_a_network_is_conditioned_by_its_latents():
    """The color is read off the latent's sign: given it, meters stand on that side, too."""
    schema = Schema.from_dict(
        {"columns": {n: SAMPLERS_SCHEMA.to_dict()["columns"][n] for n in ("old", "height")}}
    )
    randomizer = Randomizer(
        schema, {"old": RandomizedResponse(2, 1.0), "height": Laplace(1.0, 2.0**-19)}
    )
    head = Head(randomizer)
    generator = MLP(1, head.num_features, ())
    with torch.no_grad():
        generator.layers[0].weight.copy_(torch.tensor([[20.0], [0.0], [5.0]]))
        generator.layers[0].bias.zero_()
    sampler = GeneratorSampler(generator, head)
    code = schema.coded["old"].labels.index("true")
    sign = 1.0 if code == 0 else -1.0
    drawn = sampler.records(500, np.random.default_rng(0), {"old": [code]})
    assert drawn["old"].to_pylist() == [True] * 500
    side = sign * (np.array(drawn["meters"].to_pylist()) - 1) > 0
    assert side.mean() > 0.95
    again = GeneratorSampler.build(randomizer, sampler.fields(), sampler.arrays())
    rng = np.random.default_rng(0)
    assert again.records(500, rng, {"old": [code]}).equals(drawn)

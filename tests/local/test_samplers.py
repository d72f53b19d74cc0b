"""Conditions are read in the schema's words, and what is drawn meets them."""

import numpy as np
import pytest
import torch

from privot import Randomizer, Schema
from privot.errors import PrivotError
from privot.generators import MLP
from privot.local.likelihood.heads import Head
from privot.local.samplers import GeneratorSampler, read_condition
from privot.mechanisms import Laplace, RandomizedResponse

SCHEMA = Schema.from_toml("""
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
    labels = SCHEMA.coded["color"].labels
    told = read_condition(SCHEMA, {"color": ["blue", None], "old": True})
    assert {labels[code] for code in told["color"]} == {"blue", "(missing)"}
    assert [SCHEMA.coded["old"].labels[code] for code in told["old"]] == ["true"]
    assert read_condition(SCHEMA, {"color": "red"}) == {"color": [labels.index("red")]}


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
        read_condition(SCHEMA, where)


def test_a_network_is_conditioned_by_its_latents():
    """The color is read off the latent's sign: given it, meters stand on that side, too."""
    schema = Schema.from_dict(
        {"columns": {n: SCHEMA.to_dict()["columns"][n] for n in ("old", "height")}}
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
    drawn = sampler.records(500, torch.Generator().manual_seed(0), {"old": [code]})
    assert drawn["old"].to_pylist() == [True] * 500
    side = sign * (np.array(drawn["meters"].to_pylist()) - 1) > 0
    assert side.mean() > 0.95
    again = GeneratorSampler.build(randomizer, sampler.shape(), sampler.tensors())
    rng = torch.Generator().manual_seed(0)
    assert again.records(500, rng, {"old": [code]}).equals(drawn)

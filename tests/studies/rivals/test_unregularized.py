"""The unregularized baseline learns the noisy reports, and entropic transport does not."""

import numpy as np
import pytest
import torch

from privot import FitSettings, Randomizer, Schema, fit
from privot.errors import PrivotError
from studies.rivals.unregularized import fit_unregularized

NUMBER = Schema.from_toml('[columns.age]\nkind = "numeric"\nbounds = [0, 100]')
QUICK = FitSettings(steps=300, batch_size=100, hidden=(32, 32), learning_rate=3e-3, averaging=0.98)


def spread(values):
    """Mean absolute distance from the one true value."""
    return np.abs(np.asarray(values) - 50).mean()


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "delta"), [("laplace", 8, 0), ("gaussian", 10, 1e-4)]
)
def test_where_everybody_is_alike_it_learns_the_noise_and_entropic_transport_the_person(
    mechanism, epsilon, delta
):
    release = Randomizer.calibrate(NUMBER, epsilon, delta, mechanism=mechanism).privatize(
        {"age": np.full(20_000, 50.0)}
    )
    noise = spread(np.clip(release.table["age"], 0, 100))  # as samples are projected
    theirs = spread(fit_unregularized(release, QUICK).sample(5000, seed=0)["age"])
    ours = spread(fit(release, QUICK).sample(5000, seed=0)["age"])
    assert theirs == pytest.approx(noise, rel=0.15)
    assert ours < noise / 4


def test_same_seed_same_weights_and_the_guarantee_is_the_release_s():
    release = Randomizer.calibrate(NUMBER, 4.0, report="split").privatize({"age": np.arange(100.0)})
    settings = FitSettings(steps=5, batch_size=20, hidden=(8,))
    first, again = (fit_unregularized(release, settings) for _ in range(2))
    other = fit_unregularized(release, FitSettings(steps=5, batch_size=20, hidden=(8,), seed=1))
    weights = [model.sampler.generator.layers[0].weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert first.guarantee == release.guarantee
    assert first.made_with["loss"] == "unregularized W1"


@pytest.mark.parametrize(
    "schema",
    [
        '[columns.c]\nkind = "categorical"\ncategories = ["a", "b"]',
        '[columns.a]\nkind = "numeric"\nbounds = [0, 1]\n[columns.b]\nkind = "numeric"\nbounds = [0, 1]',
    ],
)
def test_other_releases_are_refused(schema):
    schema = Schema.from_toml(schema)
    table = {
        name: ["a", "b"]
        if name in schema.coded and schema.columns[name].kind == "categorical"
        else [0.0, 1.0]
        for name in schema.columns
    }
    release = Randomizer.calibrate(schema, 1.0).privatize(table)
    with pytest.raises(PrivotError, match="takes a release of one column"):
        fit_unregularized(release, FitSettings(steps=1))

"""The sampler of Gaussian classes: labels and points as records, and as a model's numbers."""

import numpy as np
import pytest

from privot.local.gaussians import GaussianClasses, GaussianSampler, SmoothChannel
from privot.randomizer import Randomizer
from privot.schema import Schema

TEXT = """
[columns.v]
kind = "vector"
columns = ["a", "b", "c", "d"]
radius = 2.0
[columns.shape]
kind = "categorical"
categories = ["bar", "dot"]
"""


def made():
    randomizer = Randomizer.calibrate(Schema.from_toml(TEXT), 4.0)
    report = randomizer.candidates
    channel = SmoothChannel.of(report.mechanism, report.features.label_weight)
    means = np.array([[0.9, 0, 0, 0, 0.1], [0, 0.9, 0, 0, 0.1]])
    law = GaussianClasses(
        channel, np.array([0.8, 0.2]), np.zeros(2), means, np.full((5, 1), 0.05), np.full(5, 0.01)
    )
    return randomizer, GaussianSampler(law, report)


def test_records_lie_in_the_domain_about_their_labels_mean():
    _, sampler = made()
    table = sampler.records(2000, np.random.default_rng(0), {})
    points = np.stack([table.column(name).to_numpy() for name in "abcd"], axis=1)
    dots = np.array(table.column("shape").to_pylist()) == "dot"
    assert dots.mean() == pytest.approx(0.2, abs=0.04)
    assert np.linalg.norm(points, axis=1).max() <= 2 * (1 + 1e-9)
    assert (points[dots].mean(axis=0).argmax(), points[~dots].mean(axis=0).argmax()) == (1, 0)
    given = sampler.records(50, np.random.default_rng(0), {"shape": [1]})
    assert set(given.column("shape").to_pylist()) == {"dot"}


def test_it_is_built_again_from_its_numbers():
    randomizer, sampler = made()
    again = GaussianSampler.build(randomizer, sampler.fields(), sampler.arrays())
    one, two = (s.records(20, np.random.default_rng(1), {}) for s in (sampler, again))
    assert one.equals(two)

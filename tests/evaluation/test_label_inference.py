"""What one report gives away: more at a larger ε, for candidates and for noise; nothing of others."""

import numpy as np
import pyarrow as pa
import pytest

from made_up_images import bars
from privot.evaluation.prediction import infer_labels
from privot.randomizer import Randomizer
from privot.schema import Schema
from privot.schema.columns.array import tensor_array

SCHEMA = Schema.from_toml("""
[columns.image]
kind = "array"
shape = [28, 28]
bounds = [0, 255]
[columns.label]
kind = "categorical"
categories = ["0", "1"]
""")


def people_of(labels=None):
    x, y = bars(700, 0)
    return pa.table(
        {"image": tensor_array(x), "label": [str(k) for k in (y if labels is None else labels)]}
    )


@pytest.mark.parametrize(
    ("kind", "large", "given"),
    [("auto", 9.0, {}), ("gaussian", 500.0, {"delta": 1e-5, "shares": {"label": 0.1}})],
)
def test_more_is_named_at_a_larger_epsilon(kind, large, given):
    people, named = people_of(), []
    for epsilon in (1.0, large):
        randomizer = Randomizer.calibrate(SCHEMA, epsilon, mechanism=kind, **given)
        named.append(infer_labels(randomizer.privatize(people, keep_order=True), people))
    # Of two labels ε = 1 allows .73 and gives at most .59, the larger one at least .88; standard errors
    # of 350 people are .026 and .017: six of them and more, so that either fails once in 10⁹.
    assert named[0] < np.exp(1) / (1 + np.exp(1)) + 0.03
    assert named[1] > 0.77


def test_reports_in_another_order_name_nobody():
    people = people_of()
    release = Randomizer.calibrate(SCHEMA, 8.0).privatize(people, keep_order=True)
    assert infer_labels(release, people) > 0.7
    mixed = people.take(np.random.default_rng(0).permutation(len(people)))
    assert abs(infer_labels(release, mixed) - 0.5) < 0.16  # of 350 people, six standard errors

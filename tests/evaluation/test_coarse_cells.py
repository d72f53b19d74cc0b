"""A verdict counts what reports do not show: where people are within a cell."""

import numpy as np
import pytest

import privot
from given_classes import fit_four
from privot.evaluation import check
from privot.evaluation.distances import ks_distance

PEOPLE = 6_000


def people():
    rng = np.random.default_rng(0)
    x = 4 + 7 * rng.beta(2, 3, PEOPLE)
    return {"x": x, "y": np.clip(x + rng.normal(0, 0.5, PEOPLE), 0, 60)}


@pytest.mark.filterwarnings("ignore:column")
@pytest.mark.parametrize(
    ("more", "good"),
    [({"bins": 10}, False), pytest.param({"typical": [4, 11]}, True, marks=pytest.mark.slow)],
)
def test_numbers_are_good_only_if_cells_show_where_people_are(more, good):
    declared = {"kind": "numeric", "bounds": [0, 60]} | more
    schema = privot.Schema.from_dict({"columns": {"x": declared, "y": declared}})
    truth = people()
    release = privot.Randomizer.calibrate(schema, 8.0).privatize(truth)
    model = fit_four(release)
    drawn = model.sample(20_000, seed=0)
    x, y = (drawn[name].to_numpy() for name in ("x", "y"))
    errors = [ks_distance(x, truth["x"]), ks_distance(y, truth["y"])]
    gap = abs(np.corrcoef(x, y)[0, 1] - np.corrcoef(truth["x"], truth["y"])[0, 1])
    found = check(model, release)
    by_topic = {finding.topic: finding for finding in found.verdict}
    numbers, correlations = by_topic["numbers, value by value"], by_topic["correlations"]
    assert (max(errors) <= 0.05) == good
    assert (numbers.grade == "good") == good
    assert ("declare typical numbers" in numbers.words) != good
    expected = [column.number.ks for column in found.columns]
    assert max(expected) > max(errors) / 3
    if not good:
        assert gap > 0.1
        assert correlations.grade != "good"

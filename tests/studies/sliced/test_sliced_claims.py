"""Verdicts on the paper on sliced distances follow from rows; its slips are what they are said to be."""

from pathlib import Path

import numpy as np
import pytest
import torch

from studies.common.rows import read_rows
from studies.rivals.published_slice_bounds import normalized_difference, published_bernstein
from studies.sliced import toy
from studies.sliced.claims import claims_of
from studies.sliced.lengths import mean_of_square

RESULTS = Path(__file__).parents[3] / "docs" / "results"


@pytest.fixture(scope="module")
def rows():
    folder = RESULTS / "central"
    found = {name: read_rows(folder, name) for name in ("adaptation", "rivals")}
    claimed = {name: read_rows(folder, f"published_{name}") for name in ("images", "adaptation")}
    return found, claimed, read_rows(RESULTS, "sliced_toy")


def verdicts(rows, words, where=""):
    return [c.verdict for c in claims_of(*rows) if words in c.quote and where in c.place]


def changed(rows, method, factor, epsilon=None):
    """The same runs, with accuracies of one method, at one ε if any, multiplied."""
    found, claimed, curves = rows
    adaptation = [
        row | {"accuracy": factor * row["accuracy"]}
        if row["method"] == method
        and "accuracy" in row
        and (epsilon is None or abs(row["epsilon"] - epsilon) < 0.1)
        else row
        for row in found["adaptation"]
    ]
    return found | {"adaptation": adaptation}, claimed, curves


def test_a_loss_is_what_rows_lose(rows):
    assert verdicts(rows, "almost no loss") == ["contradicted", "confirmed"]
    assert verdicts(changed(rows, "dp_swd", 0.9), "almost no loss")[1] == "contradicted"
    assert verdicts(changed(rows, "dp_swd", 0.8), "does not incur a loss")[1] == "contradicted"
    assert verdicts(changed(rows, "swd", 0.8), "does not incur a loss")[1] == "confirmed"


def test_a_rival_may_be_ahead_twice(rows):
    assert verdicts(rows, "DP-DANN") == ["confirmed", "undecided"]
    assert verdicts(changed(rows, "dp_dann", 0.7), "DP-DANN")[1] == "confirmed"
    assert verdicts(changed(rows, "dp_dann", 1.3), "DP-DANN")[1] == "contradicted"


def test_accuracy_is_constant_within_a_point(rows):
    sentence = "almost constant"
    assert verdicts(changed(rows, "dp_swd", 1.03, epsilon=3.0), sentence) == ["confirmed"]
    assert verdicts(changed(rows, "dp_swd", 0.95, epsilon=3.0), sentence) == ["contradicted"]


def test_the_length_of_a_projection_is_squared():
    """100 000 directions: the mean deviates by .3 % of itself, the limit stands at seven deviations."""
    assert mean_of_square(3.0) == pytest.approx(9 / 5, rel=0.025)


def test_a_record_changes_every_row_of_a_batch_that_is_divided_by_its_largest_norm():
    rng = np.random.default_rng(0)
    batch = rng.standard_normal((50, 8))
    batch /= np.linalg.norm(batch, axis=1, keepdims=True)
    grown = np.vstack([1000 * batch[:1], batch[1:]])
    shrunk = normalized_difference(batch, grown)
    assert shrunk == pytest.approx(49 / 4, rel=0.01)
    assert shrunk > published_bernstein(8, 8, 1e-3)
    # Records of a public radius differ in one row alone.
    assert normalized_difference(batch, np.vstack([batch[1:2], batch[1:]])) < 1.01


def test_the_power_of_a_distance_is_none():
    """Seeded: between other seeds the difference, about .25, deviates by about .07."""
    rng = torch.Generator().manual_seed(0)
    near, far = (toy.distance(shift, 1.0, 4000, rng) for shift in (0.5, 1.0))
    assert far**2 > 1.5 * (near**2 + near**2)  # exactly twice, as points grow many
    assert far < 1.1 * (near + near)

"""Rounds of sums: what they promise together, and what a plan refuses."""

import json

import numpy as np
import pytest
from scipy.stats import norm

from central.declared_images import image_schema
from central.mixtures import labeled_points
from privot.central import SumSettings
from privot.central.fitting import fit_of
from privot.central.moments import LiftedProducts
from privot.central.sums import Budget, SumMechanism, SumPlan
from privot.core.errors import PrivotError
from privot.privacy.ledger import Ledger, accounts


def delta_of(mu, epsilon):
    """δ(ε) of Gaussian noise, Δ/σ = μ: the privacy-loss distribution by its tails."""
    return norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("shares", [[1.0], [1, 2, 3], [0.05, 0.15, 0.35, 0.45]])
def test_rounds_spend_all_of_the_budget_and_no_more(epsilon, shares):
    plan = SumPlan.calibrate(epsilon, 1e-5, shares, 60_000, "visit")
    mu = np.sqrt(np.square(plan.ratios).sum())
    assert delta_of(mu, epsilon) <= 1e-5
    assert delta_of(1.0001 * mu, epsilon) > 1e-5
    assert 0.9999 * epsilon < plan.guarantee.epsilon <= epsilon * (1 + 1e-9)
    assert (plan.guarantee.neighboring, plan.guarantee.unit) == ("replace_one", "visit")
    assert np.square(plan.ratios) / mu**2 == pytest.approx(np.array(shares) / sum(shares))


def test_plans_are_read_again():
    plan = SumPlan.calibrate(2.0, 1e-6, [1, 1], 500, "person")
    assert SumPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


@pytest.mark.parametrize("ratios", [(), (1.0, 0.0), (-1.0,), (float("nan"),), (float("inf"),)])
def test_rounds_without_noise_or_none_are_refused(ratios):
    with pytest.raises(PrivotError, match="ratios"):
        SumPlan(ratios, 1e-5, 100)


def vectors(budget):
    return fit_of(labeled_points.schema(), SumSettings(), budget)


def images(components):
    def fit(budget):
        return fit_of(image_schema((8, 8), 2), SumSettings(components=components), budget)

    return fit


@pytest.mark.parametrize("fit", [vectors, images(1), images(3)])
def test_noise_that_no_round_can_draw_is_refused_by_the_plan(fit):
    """A later round would be refused after earlier ones were spent, or this one after it was charged."""
    fit(Budget(0.01, 1e-5, 10**7)).plan()
    with pytest.raises(PrivotError, match=r"not in \(0, 2\^40\]: give a larger epsilon"):
        fit(Budget(0.001, 1e-5, 10**7)).plan()


def test_noise_that_cannot_be_drawn_spends_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVOT_STATE_DIR", str(tmp_path / "state"))
    origin = np.zeros((1, 1, 2))
    records = np.zeros((50, 2)), np.zeros(50, np.int64)
    ledger = Ledger(SumPlan.calibrate(0.001, 1e-5, [3, 1], 50, "person"))
    with pytest.raises(PrivotError, match="larger epsilon"):
        SumMechanism(records, ledger).release(LiftedProducts(origin, 1.0))
    assert ledger.spent == 0
    assert not accounts()

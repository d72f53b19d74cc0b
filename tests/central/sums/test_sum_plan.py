"""Rounds of sums: what they promise together, and what a plan refuses."""

import json

import numpy as np
import pytest
from scipy.stats import norm

from privot.central.sums import SumPlan
from privot.core.errors import PrivotError


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

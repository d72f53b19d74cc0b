"""Passes climb, one by one and together."""

import numpy as np
import pytest

from privot.local.classes.counts import count_tables
from privot.local.classes.expectation import ascend, expectation, random_start
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.mixture import LatentClasses
from simulated_reports import draw_classes, draw_people, joint_reports, split_reports

SIZES = (4, 3, 5, 2, 3)


def objective(tables, prior, p, weights, strength):
    """What `ascend` climbs: log-likelihood plus log prior, up to constants."""
    possible = prior[:, 0] > 0
    log_prior = strength * (prior[possible] * np.log(p[possible])).sum() + np.log(weights).sum()
    return expectation(tables, p, weights).total(tables.counts) + float(log_prior)


def two_classes(seed, count):
    rng = np.random.default_rng(seed)
    truth = LatentClasses(*draw_classes(rng, SIZES, 2))
    return rng, truth, draw_people(rng, truth.weights, truth.probabilities, count)


def test_passes_together_climb_farther_than_one_by_one():
    rng, _, people = two_classes(5, 3000)
    tables = count_tables(joint_reports(rng, people, SIZES, 2.0), SIZES)
    prior = stacked_marginals(tables)
    at = alone = random_start(prior, tables, 4, 0, 0)
    reached = []
    for _ in range(6):
        at = ascend(tables, prior, *at, 1.0, 5)
        reached.append(objective(tables, prior, *at, 1.0))
    for _ in range(30):
        alone = ascend(tables, prior, *alone, 1.0, 1)
    assert (np.diff(reached) > -1e-9 * abs(reached[-1])).all()
    assert reached[-1] > objective(tables, prior, *alone, 1.0)


@pytest.mark.parametrize("make", [joint_reports, split_reports])
@pytest.mark.parametrize("num_classes", [1, 3, 8])
def test_every_pass_raises_the_objective(make, num_classes):
    rng, _, people = two_classes(0, 3000)
    tables = count_tables(make(rng, people, SIZES, 2.0), SIZES)
    prior = stacked_marginals(tables)
    p, weights = random_start(prior, tables, num_classes, 0, 0)
    reached = [objective(tables, prior, p, weights, 1.5)]
    for _ in range(40):
        p, weights = ascend(tables, prior, p, weights, 1.5, 1)
        reached.append(objective(tables, prior, p, weights, 1.5))
    assert (np.diff(reached) > -1e-9 * abs(reached[-1])).all()
    if num_classes > 1:
        assert reached[-1] > reached[0] + 5

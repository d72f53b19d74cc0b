import math

import numpy as np
import pytest

from given_classes import column_marginals, fit_groups
from privot.core.errors import PrivotError
from privot.local.classes.class_fit import LatentClassSettings
from privot.local.classes.counts import Factor, ReportGroup
from privot.local.classes.marginals import rake
from privot.local.classes.mixture import LatentClasses
from simulated_reports import (
    draw_classes,
    draw_people,
    joint_group,
    joint_reports,
    response_factors,
    split_reports,
    total_variation,
)


def closed_form(counts, ratio):
    """(n_v/λ − 1/(r−1))₊ with sum 1: the largest counts remain."""
    ordered = np.sort(counts)[::-1]
    for support in range(len(counts), 0, -1):
        scale = ordered[:support].sum() / (1 + support / (ratio - 1))
        p = np.maximum(counts / scale - 1 / (ratio - 1), 0)
        if (p > 0).sum() == support:
            return p
    raise AssertionError("a distribution always exists")


@pytest.mark.parametrize(("size", "epsilon", "seed"), [(2, 1.0, 0), (7, 2.0, 1), (40, 1.0, 2)])
def test_one_column_is_the_closed_form(size, epsilon, seed):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(3000, rng.dirichlet(np.full(size, 0.5))).astype(float)
    noisy = 0.3 * counts + rng.multinomial(2000, np.full(size, 1 / size))
    noisy = np.rint(noisy)
    factor = response_factors((size,), epsilon)[0]
    group = ReportGroup((factor,), np.arange(size, dtype=np.int32)[:, None], noisy)
    found = column_marginals([group], (size,))[0]
    exact = closed_form(noisy, math.exp(epsilon))
    if size == 40:
        assert (exact == 0).any()  # the cut at zero is part of the claim
    assert np.abs(found - exact).max() < 1e-6


def test_sets_reach_the_optimality_conditions():
    """At the maximum, Σ n A g/(1+gAp) ≤ n Σ(...)p for every category, with equality where p > 0."""
    rng = np.random.default_rng(4)
    people = rng.choice(12, size=(5000, 1), p=rng.dirichlet(np.full(12, 0.3)))
    group = joint_group(rng, people, (0,), (12,), 1.0)
    p = column_marginals([group], (12,))[0]
    rows, gain = group.factors[0].likelihood.todense(), math.e - 1
    slope = rows.T @ (group.counts * gain / (1 + gain * rows @ p))
    assert slope.max() <= (slope @ p) * (1 + 1e-5)
    np.testing.assert_allclose(slope[p > 1e-4], slope @ p, rtol=1e-4)


def independent_people(rng, count):
    laws = [rng.dirichlet(np.ones(size)) for size in (4, 6, 2)]
    return laws, np.stack([rng.choice(len(law), count, p=law) for law in laws], axis=1)


@pytest.mark.parametrize("make", [joint_reports, split_reports])
def test_marginals_approach_the_truth_as_reports_grow(make):
    errors = []
    for count in (4_000, 100_000):
        rng = np.random.default_rng(5)
        laws, people = independent_people(rng, count)
        found = column_marginals(make(rng, people, (4, 6, 2), 2.0), (4, 6, 2))
        errors.append(np.mean([total_variation(f, law) for f, law in zip(found, laws)]))
    assert errors[1] < 0.4 * errors[0]
    assert errors[1] < 0.01


def test_dependence_biases_joint_reports_and_not_split_ones():
    """The sharp edge that the docstring tells; a model of the dependence has none of it."""
    rng, sizes = np.random.default_rng(5), (4, 6, 2)
    truth = LatentClasses(*draw_classes(rng, sizes, 3))
    people = draw_people(rng, truth.weights, truth.probabilities, 200_000)
    joint = joint_reports(rng, people, sizes, 2.0)
    split = split_reports(rng, people, sizes, 2.0)

    def error(found):
        return np.mean([total_variation(f, truth.marginal([c])) for c, f in enumerate(found)])

    settings = LatentClassSettings(class_counts=(4,), strengths=(1.0,), starts=1)
    model = fit_groups(joint, sizes, settings=settings, seed=0)
    biased = error(column_marginals(joint, sizes))
    assert biased > 0.01
    assert error(column_marginals(split, sizes)) < biased / 2
    assert error([model.marginal([c]) for c in range(3)]) < biased / 2


def test_constant_columns_missing_categories_and_columns_nobody_reports():
    rng = np.random.default_rng(6)
    people = np.stack([np.zeros(20_000, int), rng.integers(0, 2, 20_000)], axis=1)
    found = column_marginals([joint_group(rng, people, (0, 1), (3, 4), 3.0)], (3, 4, 5))
    assert found[0][0] > 0.99
    assert found[1][2:].max() < 0.02
    np.testing.assert_array_equal(found[2], np.full(5, 0.2))
    single = joint_group(rng, people[:, :1], (0,), (1,), 3.0)
    assert column_marginals([single], (1,))[0].tolist() == [1.0]


def test_an_early_stop_is_said():
    rng = np.random.default_rng(7)
    people = rng.integers(0, 4, (300, 2))
    groups = [joint_group(rng, people, (0, 1), (4, 4), 1.0)]
    with pytest.warns(UserWarning, match="raise max_iterations"):
        column_marginals(groups, (4, 4), max_iterations=3)


def test_refusals():
    with pytest.raises(PrivotError, match="tables has no column"):
        column_marginals([], ())
    group = ReportGroup(
        (Factor((0,), (2,), np.eye(2), 2.0),), np.zeros((1, 1), np.int32), np.ones(1)
    )
    with pytest.raises(PrivotError, match="sizes has no columns"):
        column_marginals([group], (4,))


SIZES = (2, 5, 3)


def model_and_marginals(seed):
    rng = np.random.default_rng(seed)
    model = LatentClasses(*draw_classes(rng, SIZES, 6))
    return model, [rng.dirichlet(np.ones(size)) for size in SIZES]


@pytest.mark.parametrize("seed", range(4))
def test_marginals_are_reached_and_weights_stay(seed):
    model, marginals = model_and_marginals(seed)
    raked = rake(model, marginals)
    for column, marginal in enumerate(marginals):
        assert total_variation(raked.marginal([column]), marginal) < 2e-9
    np.testing.assert_array_equal(raked.weights, model.weights)


def test_odds_ratios_between_classes_stay():
    model, marginals = model_and_marginals(5)
    raked = rake(model, marginals)

    def odds(table):
        return np.log(table[1:, 1:] * table[:1, :1] / (table[1:, :1] * table[:1, 1:]))

    for before, after in zip(model.probabilities, raked.probabilities):
        np.testing.assert_allclose(odds(before), odds(after), atol=1e-9)


def test_right_marginals_change_nothing():
    model, _ = model_and_marginals(6)
    raked = rake(model, [model.marginal([column]) for column in range(3)])
    for before, after in zip(model.probabilities, raked.probabilities):
        np.testing.assert_allclose(before, after, rtol=1e-12)


@pytest.mark.parametrize("least", [0.0, 5e-324, 1e-310])
def test_categories_that_no_class_has_and_categories_that_nobody_has(least):
    weights = np.array([0.2, 0.4, 0.4])
    table = np.array([[1.0, 0.5, 0.2], [0.0, 0.5, 0.8], [least, least, least]])
    raked = rake(LatentClasses(weights, (table,)), [np.array([0.0, 0.4, 0.6])])
    np.testing.assert_allclose(raked.marginal([0]), [0, 0.4, 0.6], atol=1e-8)


def test_what_cannot_be_reached_is_said():
    weights = np.array([0.5, 0.5])
    model = LatentClasses(weights, (np.eye(2),))  # each class has one category only
    with pytest.warns(UserWarning, match="raise max_iterations"):
        rake(model, [np.array([0.9, 0.1])])

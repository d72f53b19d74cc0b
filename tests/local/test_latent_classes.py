import numpy as np
import pytest

from given_classes import column_marginals, fit_groups
from privot.local.classes.class_fit import LatentClassSettings
from privot.local.classes.counts import ReportGroup
from privot.local.classes.mixture import LatentClasses
from simulated_reports import (
    draw_classes,
    draw_people,
    joint_group,
    joint_reports,
    split_reports,
    total_variation,
)

SIZES = (4, 3, 5, 2, 3)
QUICK = LatentClassSettings(class_counts=(2, 4), strengths=(1.0,), max_passes=100)


def two_classes(seed, count):
    rng = np.random.default_rng(seed)
    truth = LatentClasses(*draw_classes(rng, SIZES, 2))
    return rng, truth, draw_people(rng, truth.weights, truth.probabilities, count)


def pair_error(model, truth):
    pairs = [(i, j) for i in range(len(SIZES)) for j in range(i)]
    return np.mean([total_variation(model.marginal(p), truth.marginal(p)) for p in pairs])


@pytest.mark.parametrize("make", [joint_reports, split_reports])
def test_a_population_of_two_classes_is_recovered(make):
    rng, truth, people = two_classes(1, 60_000)
    groups = make(rng, people, SIZES, 3.0)
    model = fit_groups(groups, SIZES, settings=QUICK, seed=0)
    marginals = column_marginals(groups, SIZES)
    independent = LatentClasses(np.ones(1), tuple(m[:, None] for m in marginals))
    assert pair_error(model, truth) < 0.2 * pair_error(independent, truth)
    assert pair_error(model, truth) < 0.015


def test_the_error_is_no_less_than_chance_allows():
    """With clean reports of every column the fit cannot beat the multinomial error of the truth."""
    rng, truth, people = two_classes(2, 2000)
    group = joint_group(rng, people, (0, 1, 2), SIZES, 30.0)
    model = fit_groups([group], SIZES, settings=QUICK, seed=0)
    found = total_variation(model.marginal([0]), truth.marginal([0]))
    empirical = np.bincount(people[:, 0], minlength=4) / 2000
    # An unregularized margin of clean data is the empirical one; the fit must be near it, not nearer
    # to a truth that it cannot know.
    assert total_variation(model.marginal([0]), empirical) < 0.005
    assert found > 0.5 * total_variation(empirical, truth.marginal([0]))


def test_independent_columns_are_their_marginals():
    rng = np.random.default_rng(2)
    people = np.stack([rng.choice(s, 5000, p=rng.dirichlet(np.ones(s))) for s in SIZES], 1)
    groups = joint_reports(rng, people, SIZES, 2.0)
    model = fit_groups(groups, SIZES, settings=QUICK, seed=0)
    for found, marginal in zip(model.probabilities, column_marginals(groups, SIZES)):
        np.testing.assert_allclose(found[:, 0], marginal)


def test_the_same_reports_in_any_form_give_the_same_fit():
    rng, _, people = two_classes(4, 4000)
    groups = joint_reports(rng, people, SIZES, 2.0)
    one_by_one = [
        ReportGroup(
            g.factors,
            np.repeat(g.answers, g.counts.astype(int), axis=0)[::-1],
            np.ones(int(g.counts.sum())),
        )
        for g in groups
    ]
    fits = [fit_groups(g, SIZES, settings=QUICK, seed=3) for g in (groups, one_by_one)]
    np.testing.assert_array_equal(fits[0].weights, fits[1].weights)
    for a, b in zip(fits[0].probabilities, fits[1].probabilities):
        np.testing.assert_array_equal(a, b)
    other = fit_groups(groups, SIZES, settings=QUICK, seed=4)
    assert not np.array_equal(fits[0].probabilities[0], other.probabilities[0])


def test_one_column_two_people_constant_columns_and_absent_categories():
    rng = np.random.default_rng(6)
    single = joint_group(rng, rng.integers(0, 3, (500, 1)), (0,), (4,), 2.0)
    model = fit_groups([single], (4,), seed=0)
    np.testing.assert_allclose(model.marginal([0]), column_marginals([single], (4,))[0])
    pair = joint_group(rng, np.array([[0, 1], [1, 1]]), (0, 1), (2, 2), 1.0)
    assert fit_groups([pair], (2, 2), seed=0).marginal([0, 1]).sum() == pytest.approx(1)
    people = np.stack([np.zeros(4000, int), rng.integers(0, 2, 4000)], axis=1)
    people = np.concatenate([people, people[:, 1:]], axis=1)  # the third column equals the second
    groups = joint_reports(rng, people, (1, 3, 2), 3.0)
    model = fit_groups(groups, (1, 3, 2), settings=QUICK, seed=0)
    joint = model.marginal([1, 2])
    assert joint[2].sum() < 0.02
    assert joint[0, 0] + joint[1, 1] > 0.9
    assert fit_groups([], (2, 3), seed=0).marginal([1]).tolist() == [1 / 3] * 3

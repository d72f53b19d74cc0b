import numpy as np
import pytest

from privot.core.errors import PrivotError
from simulated_reports import joint_reports, split_reports, total_variation
from studies.rivals.chow_liu import ChowLiuTree, chow_liu
from studies.rivals.independence import independence

SIZES = (3, 2, 4, 3)
PARENTS = (-1, 0, 0, 2)


@pytest.fixture
def tree():
    rng = np.random.default_rng(0)
    tables = [rng.dirichlet(np.ones(3))[:, None]]
    for column, parent in list(enumerate(PARENTS))[1:]:
        tables.append(rng.dirichlet(np.full(SIZES[column], 0.3), SIZES[parent]).T)
    return ChowLiuTree((0, 1, 2, 3), PARENTS, tuple(tables))


def whole(tree):
    root, second, third, fourth = tree.conditionals
    return np.einsum("a,ba,ca,dc->abcd", root[:, 0], second, third, fourth)


def test_marginals_are_sums_of_the_whole(tree):
    joint = whole(tree)
    np.testing.assert_allclose(tree.marginal([0, 1, 2, 3]), joint)
    np.testing.assert_allclose(tree.marginal([3, 1]), joint.sum((0, 2)).T)
    np.testing.assert_allclose(tree.marginal([2]), joint.sum((0, 1, 3)))
    with pytest.raises(PrivotError, match="columns is"):
        tree.marginal([1, 1])


@pytest.mark.parametrize("where", [None, {3: 1}, {1: 0, 3: [0, 2]}])
def test_samples_follow_the_conditional_law(tree, where):
    joint = whole(tree)
    if where:
        joint[:, :, :, ~np.isin(np.arange(3), where[3])] = 0
        if 1 in where:
            joint[:, 1] = 0
        joint /= joint.sum()
    sample = tree.sample(40_000, np.random.default_rng(1), where)
    counts = np.zeros(SIZES)
    np.add.at(counts, tuple(sample.T), 1)
    assert counts[joint == 0].sum() == 0
    seen = joint > 0
    excess = ((counts - 40_000 * joint)[seen] ** 2 / (40_000 * joint[seen])).sum()
    degrees = seen.sum() - 1
    assert abs(excess - degrees) < 5 * np.sqrt(2 * degrees)


def test_impossible_conditions_are_refused():
    tables = (np.array([[1.0], [0.0]]), np.eye(2))
    constant = ChowLiuTree((0, 1), (-1, 0), tables)
    with pytest.raises(PrivotError, match="probability 0"):
        constant.sample(1, np.random.default_rng(0), {1: 1})


@pytest.mark.parametrize("make", [joint_reports, split_reports])
def test_a_tree_is_recovered(tree, make):
    people = tree.sample(30_000, np.random.default_rng(2))
    groups = make(np.random.default_rng(3), people, SIZES, 3.0)
    found = chow_liu(groups, SIZES, seed=0)
    edges = {frozenset(edge) for edge in enumerate(found.parents) if edge[1] >= 0}
    assert edges == {frozenset(edge) for edge in enumerate(PARENTS) if edge[1] >= 0}
    joint = tree.marginal(range(4))
    apart = independence(groups, SIZES).marginal(range(4))
    error = total_variation(found.marginal(range(4)), joint)
    assert error < 0.2 * total_variation(apart, joint)


def test_three_columns_a_report_and_columns_that_nobody_reports(tree):
    people = tree.sample(30_000, np.random.default_rng(4))
    groups = joint_reports(np.random.default_rng(5), people, SIZES, 4.0, report_columns=3)
    found = chow_liu(groups, SIZES, seed=0)
    assert total_variation(found.marginal([2, 3]), tree.marginal([2, 3])) < 0.05
    lonely = chow_liu(groups[:1], (*SIZES, 2), seed=0)
    np.testing.assert_allclose(lonely.marginal([4]), [0.5, 0.5])
    one = chow_liu([], (3,), seed=0)
    np.testing.assert_allclose(one.marginal([0]), np.full(3, 1 / 3))

import numpy as np
import pytest

from privot.core.errors import PrivotError
from privot.local.classes.mixture import LatentClasses, draw_categories
from simulated_reports import draw_classes, joint_reports

SIZES = (3, 2, 4)


@pytest.fixture
def model():
    return LatentClasses(*draw_classes(np.random.default_rng(0), SIZES, 5))


def whole(model):
    return np.einsum("z,az,bz,cz->abc", model.weights, *model.probabilities)


def test_marginals_are_sums_of_the_whole(model):
    joint = whole(model)
    np.testing.assert_allclose(model.marginal([0, 1, 2]), joint)
    np.testing.assert_allclose(model.marginal([2, 0]), joint.sum(1).T)
    np.testing.assert_allclose(model.marginal([1]), joint.sum((0, 2)))
    assert model.marginal([]) == 1


@pytest.mark.parametrize("where", [None, {1: 1}, {0: [0, 2], 2: [3]}, {0: np.array([1, 2]), 1: 0}])
def test_samples_follow_the_conditional_law(model, where):
    joint = whole(model)
    for column, codes in (where or {}).items():
        mask = np.isin(
            np.arange(SIZES[column]),
            codes if np.isscalar(codes) else list(codes),
        )
        joint = joint * mask.reshape([-1 if i == column else 1 for i in range(3)])
    joint = joint / joint.sum()
    rows = 40_000
    sample = model.sample(rows, np.random.default_rng(1), where)
    counts = np.zeros(SIZES)
    np.add.at(counts, tuple(sample.T), 1)
    possible = joint > 0
    assert counts[~possible].sum() == 0
    excess = ((counts - rows * joint)[possible] ** 2 / (rows * joint[possible])).sum()
    degrees = possible.sum() - 1
    assert abs(excess - degrees) < 5 * np.sqrt(2 * degrees)
    # The same statistic tells the law from that of independent columns with the same marginals.
    if where is None:
        wrong = np.einsum("a,b,c->abc", joint.sum((1, 2)), joint.sum((0, 2)), joint.sum((0, 1)))
        assert ((counts - rows * wrong) ** 2 / (rows * wrong)).sum() > degrees + 50 * np.sqrt(
            2 * degrees
        )


def test_categories_of_probability_zero_are_never_drawn():
    table = np.array([[0.0, 0.5], [1 - 1e-16, 0.5], [0.0, 0.0]])
    given = np.zeros(10_000, np.int64)

    class Extreme:
        def random(self, size):
            return np.resize([0.0, np.nextafter(1.0, 0.0)], size)

    for z in (0, 1):
        drawn = draw_categories(table, given + z, Extreme())
        assert table[drawn, z].min() > 0


def test_impossible_conditions_are_refused(model):
    rng = np.random.default_rng(2)
    constant = LatentClasses(np.ones(1), (np.array([[1.0], [0.0]]),))
    with pytest.raises(PrivotError, match="probability 0"):
        constant.sample(1, rng, {0: 1})
    for where in ({0: []}, {0: 3}, {0: -1}, {0: 0.5}):
        with pytest.raises(PrivotError):
            model.sample(1, rng, where)
    for columns in ([0, 0], [3], [-1]):
        with pytest.raises(PrivotError, match="columns is"):
            model.marginal(columns)


def test_storage_and_averages(model):
    again = LatentClasses.from_dict(model.to_dict())
    np.testing.assert_array_equal(whole(model), whole(again))
    other = LatentClasses(*draw_classes(np.random.default_rng(3), SIZES, 2))
    mean = LatentClasses.average([model, other])
    assert mean.num_classes == 7
    np.testing.assert_allclose(whole(mean), (whole(model) + whole(other)) / 2)
    with pytest.raises(PrivotError, match="arrays lack"):
        LatentClasses.from_dict({"weights": model.weights, "column_1": model.probabilities[0]})


def test_distributions_are_checked():
    with pytest.raises(PrivotError, match="have shapes"):
        LatentClasses(np.ones(1), (np.full((2, 2), 0.5),))
    with pytest.raises(PrivotError, match="no distributions"):
        LatentClasses(np.ones(1), (np.ones((2, 1)),))


def test_reports_have_the_likelihood_of_their_cells(model):
    rng = np.random.default_rng(4)
    people = model.sample(200, rng)
    groups = joint_reports(rng, people, SIZES, 1.0)
    expected = []
    for group in groups:
        factor = group.factors[0]
        cells = model.marginal(factor.queries).ravel()
        likelihood = 1 + (factor.ratio - 1) * (factor.likelihood @ cells)
        expected.append(np.log(likelihood[group.answers[:, 0]]))
    np.testing.assert_allclose(model.log_likelihood(groups), np.concatenate(expected))

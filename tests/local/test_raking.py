import numpy as np
import pytest

from privot.errors import PrivotError
from privot.local.classes.product_mixture import LatentClasses
from privot.local.classes.raking import rake
from simulated_reports import draw_classes, total_variation

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


def test_categories_that_no_class_has_and_categories_that_nobody_has():
    weights = np.array([0.2, 0.4, 0.4])
    table = np.array([[1.0, 0.5, 0.2], [0.0, 0.5, 0.8], [0.0, 0.0, 0.0]])
    raked = rake(LatentClasses(weights, (table,)), [np.array([0.0, 0.4, 0.6])])
    np.testing.assert_allclose(raked.marginal([0]), [0, 0.4, 0.6], atol=1e-8)


def test_what_cannot_be_reached_is_said():
    weights = np.array([0.5, 0.5])
    model = LatentClasses(weights, (np.eye(2),))  # each class has one category only
    with pytest.warns(UserWarning, match="raise max_iterations"):
        rake(model, [np.array([0.9, 0.1])])


def test_refusals():
    model, marginals = model_and_marginals(7)
    with pytest.raises(PrivotError, match="marginals have sizes"):
        rake(model, marginals[:2])
    with pytest.raises(PrivotError, match="no distribution"):
        rake(model, [2 * marginal for marginal in marginals])

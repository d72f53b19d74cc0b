import numpy as np

from given_classes import column_marginals
from simulated_reports import draw_classes, draw_people, joint_reports
from studies.rivals.independence import independence

SIZES = (3, 4, 2)


def test_it_is_the_product_of_the_marginals():
    rng = np.random.default_rng(0)
    people = draw_people(rng, *draw_classes(rng, SIZES, 3), 2000)
    groups = joint_reports(rng, people, SIZES, 2.0)
    model, marginals = independence(groups, SIZES), column_marginals(groups, SIZES)
    np.testing.assert_allclose(model.marginal([2, 0]), np.outer(marginals[2], marginals[0]))
    assert model.num_classes == 1

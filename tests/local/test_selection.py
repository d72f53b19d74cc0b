"""Held-out reports choose_trials dependence where there is some, and nothing of them is learned from."""

import numpy as np

from privot.local.classes.class_fit import (
    INDEPENDENCE,
    RELEVANCE_SETTINGS,
    LatentClassSettings,
    Prior,
    Trial,
    choose_trials,
    describe_dependence,
    relevance,
)
from privot.local.classes.counts import count_tables
from privot.local.classes.marginals import stacked_marginals
from privot.training import FitMonitor
from simulated_reports import draw_classes, draw_people, joint_reports

SIZES = (4, 3, 5, 2, 3)
QUICK = LatentClassSettings(class_counts=(2, 4), strengths=(1.0,), max_passes=100)
STRONG = LatentClassSettings(class_counts=(32,), strengths=(300.0,), max_passes=20)


def chosen(people, sizes, epsilon, rng, *settings):
    tables = count_tables(joint_reports(rng, people, sizes, epsilon), sizes)
    marginals = stacked_marginals(tables)
    priors = [Prior(np.ones_like(marginals), each) for each in settings]
    return [*choose_trials(tables, marginals, priors, 0, FitMonitor())]


def independent(rng, sizes, count):
    return np.stack([rng.choice(s, count, p=rng.dirichlet(np.ones(s))) for s in sizes], axis=1)


def dependent(rng, count):
    return draw_people(rng, *draw_classes(rng, SIZES, 2), count)


def test_independent_columns_give_independence():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        assert chosen(independent(rng, SIZES, 5000), SIZES, 2.0, rng, QUICK) == [INDEPENDENCE]


def test_the_prior_of_a_fold_knows_nothing_of_what_is_held_out():
    """Many classes held to marginals of all reports would gain by what these know of held-out ones."""
    sizes, rng = (12, 12, 12, 12, 12), np.random.default_rng(4)
    assert chosen(independent(rng, sizes, 5000), sizes, 1.0, rng, STRONG) == [INDEPENDENCE]


def test_dependence_is_chosen_where_there_is_some():
    rng = np.random.default_rng(3)
    best = chosen(dependent(rng, 20_000), SIZES, 2.0, rng, QUICK)[0]
    assert best.num_classes > 1
    assert best.gain > 2.5 * best.standard_error > 0


def test_a_trial_says_which_prior_it_is_of():
    rng = np.random.default_rng(5)
    retained = chosen(dependent(rng, 20_000), SIZES, 3.0, rng, STRONG, QUICK)
    assert retained[0].prior == 1
    assert all(trial.strength == (300.0, 1.0)[trial.prior] for trial in retained)


def test_strengths_by_column_win_where_most_columns_depend_on_nothing():
    sizes, rng = (4, 4, *[10] * 6), np.random.default_rng(1)
    people = independent(rng, sizes, 20_000)
    people[:, 1] = np.where(rng.random(20_000) < 0.8, people[:, 0], people[:, 1])
    tables = count_tables(joint_reports(rng, people, sizes, 4.0), sizes)
    marginals = stacked_marginals(tables)
    one = Prior(np.ones_like(marginals), LatentClassSettings(class_counts=(8,), strengths=(1.0,)))
    each = Prior(relevance(tables, marginals, 0), RELEVANCE_SETTINGS)
    assert next(iter(choose_trials(tables, marginals, [one, each], 0, FitMonitor()))).prior == 1


def test_what_held_out_reports_said_in_words():
    assert describe_dependence([INDEPENDENCE]) == "independence: the reports show no dependence"
    said = describe_dependence([Trial(8, 1.0, 90, 0.02312, 0.00141)])
    assert said == "classes: 0.023 ± 0.001 nats a held-out report better than independence"

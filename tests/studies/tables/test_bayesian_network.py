"""The known population is a distribution, is drawn from as it says, and a fit approaches it."""

import numpy as np
from scipy import stats

from privot.local.classes.counts import report_groups
from privot.randomizer import Randomizer, count
from studies.tables.bayesian_network import SCHEMA, Population, measure


def test_the_network_is_a_distribution_in_which_children_depend_on_parents():
    truth = Population.of_network()
    assert truth.joint.sum() == 1 or abs(truth.joint.sum() - 1) < 1e-12
    names = list(SCHEMA.coded)
    smokes, ill = names.index("smokes"), names.index("ill")
    pair = truth.marginal([smokes, ill])
    dependence = np.abs(pair - pair.sum(1, keepdims=True) * pair.sum(0)).sum() / 2
    assert dependence > 0.02
    # Insurance depends on income alone: given income, it knows nothing of the region.
    region, income, insured = (names.index(n) for n in ("region", "income", "insured"))
    table = truth.marginal([region, income, insured])
    given = table / table.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(given, np.broadcast_to(given[:1], given.shape), atol=1e-12)


def test_people_are_drawn_from_it():
    truth = Population.of_network()
    people = truth.draw(50_000, np.random.default_rng(0))
    age = SCHEMA.coded["age"].encode_codes("age", people)
    exercise = SCHEMA.coded["exercise"].encode_codes("exercise", people)
    seen = np.zeros((6, 3))
    np.add.at(seen, (age, exercise), 1)
    expected = truth.marginal([1, 5]) * 50_000
    assert stats.chisquare(seen.ravel(), expected.ravel()).pvalue > 1e-6


def test_its_likelihood_of_reports_is_the_mechanism_s():
    truth = Population.of_network()
    randomizer = Randomizer.calibrate(SCHEMA, 2.0)
    release = randomizer.privatize(truth.draw(200, np.random.default_rng(1)))
    groups = report_groups(count(release))
    ours = truth.log_likelihood(groups)
    (factor,) = groups[3].factors
    first = sum(len(group.counts) for group in groups[:3])
    mechanism = randomizer.joint.mechanism(int(np.prod(factor.shape)))
    cells = truth.marginal(factor.queries).ravel()
    sets = factor.likelihood.toarray().nonzero()[1].reshape(-1, mechanism.subset_size)
    exact = [
        np.log(np.exp(mechanism.log_likelihood(s[None], np.arange(cells.size))) @ cells)
        for s in sets
    ]
    here = ours[first : first + len(sets)]
    np.testing.assert_allclose(here - here.mean(), np.subtract(exact, np.mean(exact)), atol=1e-9)


def test_more_people_bring_the_fit_closer():
    few, many = (measure(n, 4.0, 0) for n in (2_000, 30_000))
    assert many["excess"] < few["excess"] / 2
    assert many["two_way"] < few["two_way"] / 1.5
    assert many["excess"] > -3 * many["standard_error"]

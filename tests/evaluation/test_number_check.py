"""Means, quantiles and correlations from reports alone, beside those of the people."""

import numpy as np
import pytest
import scipy

from privot.evaluation.estimates import CodeReports, ProductSource
from privot.evaluation.number_checks import (
    LEVELS,
    NumberSample,
    _critical_value,
    _cumulative,
    _first_reach,
    check_correlation,
    check_number,
)
from privot.local.releases import Releases
from privot.randomizer import Randomizer
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.height]
kind = "numeric"
bounds = [0, 10]
bins = 8
nullable = true
[columns.weight]
kind = "numeric"
bounds = [0, 10]
bins = 8
""")


def people(num, seed):
    rng = np.random.default_rng(seed)
    height = np.clip(rng.normal(4, 1.5, num), 0, 10)
    weight = np.clip(0.8 * height + rng.normal(1, 0.8, num), 0, 10)
    return {"height": np.where(rng.random(num) < 0.2, np.nan, height), "weight": weight}


def drawn(table, name):
    from privot.tables.files import as_table

    column = SCHEMA.coded[name]
    arrow = as_table({name: [None if np.isnan(v) else v for v in table[name]]})
    codes = column.encode_codes(name, arrow)
    even = column.alphabet.decode(codes, np.random.default_rng(0))
    return NumberSample(column.accept(name, arrow), codes, column.alphabet.centers, even)


@pytest.fixture(scope="module")
def told():
    """What 40 releases say, beside the truth; the model is of other people of the same kind.

    Of 1 284 releases .94 of the intervals of the mean hold it, .94 of those of the correlation, and .83,
    .89, .96, .96 and .91 of those of the quantiles. Of 40 as many as are required do not hold once in a
    million, by the binomial distribution; of intervals half as long six in ten would hold.
    """
    truth, model = people(4000, 0), people(20_000, 1)
    randomizer = Randomizer.calibrate(SCHEMA, 5.0, report_columns=2)
    nulled = truth | {"height": [None if np.isnan(v) else v for v in truth["height"]]}
    a, b = (drawn(model, name) for name in SCHEMA.coded)
    found = []
    for _ in range(40):
        reports = CodeReports.of(Releases.of(randomizer.privatize(nulled)))
        samples = {0: a, 1: b}, {0: a.ranked(), 1: b.ranked()}
        of_numbers, of_ranks = (check_correlation(reports, [(0, 1)], s) for s in samples)
        found.append((check_number(reports, {0: a}, 0.0, 0.0), of_numbers, of_ranks))
    return truth, found


def test_means_and_quantiles_hold(told):
    truth, found = told
    numbers = truth["height"][~np.isnan(truth["height"])]
    inside = np.mean([each.mean.reports.holds(numbers.mean()) for each, _, _ in found])
    assert inside >= 0.7
    assert found[0][0].mean.model == pytest.approx(4.0, abs=0.05)
    held = []
    for place, level in enumerate(LEVELS):
        true = np.quantile(numbers, level, method="inverted_cdf")
        intervals = [each.quantiles[place].reports for each, _, _ in found]
        held.append(np.mean([each.holds(true) for each in intervals]))
        assert np.mean([each.high - each.low for each in intervals]) < 1.5
    assert min(held) >= 0.45
    assert np.mean(held) >= 0.65  # as if all five were one


def test_an_interval_of_two_shapes_goes_less_far_beyond_each():
    assert _critical_value(np.array([0.0, 0.5, 20.0])) == pytest.approx(
        [1.645, 1.446, 1.282], abs=2e-3
    )


def test_intervals_of_quantiles_count_the_noise_of_the_share_of_numbers():
    """Intervals of P(x ≤ t) in a nullable column contain it 9 times in 10.

    Of 15 codes of numbers the first has 95 % of them. The root mean square of errors in standard errors
    of 800 releases has a standard error of .025: limits are 5.2 of those away. Without the noise of the
    share of numbers it is 1.28, and intervals contain the true value 8 times in 10.
    """
    num_people, epsilon, size = 10_000_000, 0.25, 16
    shares = np.array([0.95 * 0.8, *[0.05 * 0.8 / 14] * 14, 0.2])
    q = 1 / (np.exp(epsilon) + size - 1)
    p = np.exp(epsilon) * q
    indicators, answers = (np.eye(size) - q) / (p - q), np.arange(size)[:, None]
    centers = np.array([*range(15), np.nan])
    sample = NumberSample(centers, np.arange(size), centers, centers)
    errors, rng = [], np.random.default_rng(0)
    for counts in rng.multinomial(num_people, q + (p - q) * shares, 800):
        source = ProductSource((0,), (size,), counts.astype(float), (indicators,), answers, 1.0)
        reports = CodeReports((), (source,), {})
        curve, error = _cumulative(reports, {0: sample}, np.array([0.5]))
        errors.append((curve[0] - 0.95) / error[0])
    assert 0.87 < np.sqrt(np.mean(np.square(errors))) < 1.13
    assert 0.845 < np.mean(np.abs(errors) < 1.645) < 0.955  # 5.2 deviations of .0106


def test_quantiles_are_between_places_but_at_a_mass():
    """Of a density that is even from 0 to 1, but for a mass at 2: no noise, so ends are exact."""
    places, curve = np.array([0.0, 0.5, 1.0, 2.0]), np.array([0.0, 0.25, 0.5, 0.9])
    jumps = np.array([False, False, False, True])
    assert _first_reach(places, curve, 0.3, jumps) == pytest.approx(0.6)
    assert _first_reach(places, curve, 0.7, jumps) == 2.0
    assert _first_reach(places, curve, 0.95, jumps) == 2.0


def test_correlations_hold(told):
    truth, found = told
    both = ~np.isnan(truth["height"])
    true = np.corrcoef(truth["height"][both], truth["weight"][both])[0, 1]
    of_ranks = scipy.stats.spearmanr(truth["height"][both], truth["weight"][both]).statistic
    for place, value in ((1, true), (2, of_ranks)):
        intervals = [each[place].reports for each in found]
        assert np.mean([each.low - 0.01 <= value <= each.high + 0.01 for each in intervals]) >= 0.7
        assert np.mean([each.high - each.low for each in intervals]) < 0.4


def test_ranks_are_those_of_all_numbers_and_do_not_see_tails():
    values = np.array([1.0, 1.0, 5.0, 1e9, np.nan])
    codes = np.array([0, 0, 1, 2, 3])
    sample = NumberSample(values, codes, np.array([1.0, 5.0, 5e8, np.nan]), values).ranked()
    assert sample.values[:4] * 5 == pytest.approx([1.5, 1.5, 3.0, 4.0])
    assert sample.centers[:3] * 5 == pytest.approx([1.0, 2.5, 3.0])  # half of those that are equal
    assert np.isnan([sample.values[4], sample.centers[3]]).all()


def test_a_constant_has_no_correlation():
    a = drawn({"height": np.full(50, 3.0)}, "height")
    b = drawn(people(50, 2), "weight")
    assert check_correlation(CodeReports((), (), {}), [(0, 1)], {0: a, 1: b}) is None

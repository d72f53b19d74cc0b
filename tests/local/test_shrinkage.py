"""Marginals are shrunk as far as noise explains, and bins of numbers towards their neighbors."""

import numpy as np
import pytest

from privot.local.classes.counts import Query, count_tables
from privot.local.classes.marginals import shrink_marginals, shrunk_shares, stacked_marginals
from privot.local.classes.mixture import LatentClasses
from simulated_reports import draw_classes, draw_people, joint_reports, total_variation

NOBODY = np.zeros(0, np.int64)


def own_queries(sizes):
    """One query a column, whose codes are its pieces."""
    return [Query(column, np.eye(size)) for column, size in enumerate(sizes)]


def noisy(truth, deviation, rng):
    """Unbiased shares of even noise, with their information."""
    noise = rng.normal(0, deviation, len(truth))
    return truth + noise - noise.mean(), np.eye(len(truth)) / deviation**2


@pytest.mark.parametrize(
    ("truth", "deviation", "most"),
    [(np.full(16, 1 / 16), 0.03, 0.7), (np.append(0.9, np.full(41, 0.1 / 41)), 0.006, 0.7)],
    ids=["even", "one of many"],
)
def test_even_noise_on_even_or_rare_shares_is_taken_away(truth, deviation, most):
    rng, before, after = np.random.default_rng(0), 0.0, 0.0
    for _ in range(5):
        seen, information = noisy(truth, deviation, rng)
        level = np.maximum(seen, 0) / np.maximum(seen, 0).sum()
        slope = information @ (seen - level)
        before += total_variation(level, truth)
        after += total_variation(shrunk_shares(level, slope, information, NOBODY), truth)
    assert after < most * before


def test_what_is_known_well_stays():
    truth = np.array([0.5, 0.2, 0.2, 0.07, 0.03])
    found = shrunk_shares(truth, np.zeros(5), np.eye(5) * 1e9, np.arange(5))
    np.testing.assert_allclose(found, truth, atol=1e-5)


def test_neighbors_tell_of_bins_of_a_number_only():
    rng, errors = np.random.default_rng(1), np.zeros(2)
    truth = np.exp(-(((np.arange(20) - 8) / 5) ** 2))
    truth /= truth.sum()
    for _ in range(5):
        seen, information = noisy(truth, 0.015, rng)
        level = np.maximum(seen, 0) / np.maximum(seen, 0).sum()
        slope = information @ (seen - level)
        for number, order in enumerate((NOBODY, np.arange(20))):
            errors[number] += total_variation(
                shrunk_shares(level, slope, information, order), truth
            )
    assert errors[1] < 0.8 * errors[0]


def test_classes_err_less_and_the_more_people_the_less_they_move():
    sizes = (8, 6, 9)
    rng = np.random.default_rng(2)
    truth = LatentClasses(*draw_classes(rng, sizes, 2))
    errors, moved = [], []
    for count in (2000, 60_000):
        people = draw_people(rng, truth.weights, truth.probabilities, count)
        tables = count_tables(joint_reports(rng, people, sizes, 1.5), sizes)
        parts = np.split(stacked_marginals(tables)[:, 0], tables.offsets[1:-1])
        alone = LatentClasses(np.ones(1), tuple(part[:, None] for part in parts))
        found = shrink_marginals(alone, tables, own_queries(sizes), [NOBODY] * len(sizes))
        shares = [
            [each.marginal([column]) for column in range(3)] for each in (alone, found, truth)
        ]
        own, new, real = (np.concatenate(each) for each in shares)
        errors.append(np.abs(new - real).sum() / np.abs(own - real).sum())
        moved.append(np.abs(new - own).sum())
    assert errors[0] < 0.95
    assert moved[1] < 0.4 * moved[0]


def test_a_long_alphabet_is_left_as_it_is():
    model = LatentClasses(np.ones(1), (np.full((301, 1), 1 / 301),))
    tables = count_tables([], (301,))
    assert shrink_marginals(model, tables, own_queries((301,)), [NOBODY]) is model

"""Estimates from reports alone: unbiased whatever the population is like, with intervals that hold."""

from itertools import combinations

import numpy as np
import pytest

from privot.evaluation.estimates import CodeReports, Estimate, Interval, estimate, source_weight
from privot.evaluation.number_checks import pooled
from privot.local.releases import Releases
from privot.mechanisms import RandomizedResponse, SubsetSelection
from privot.randomizer import Randomizer
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
[columns.warm]
kind = "boolean"
nullable = true
[columns.size]
kind = "numeric"
bounds = [0, 4]
bins = 4
""")


def people(num, rng):
    color = rng.choice(3, num, p=[0.6, 0.3, 0.1])
    warm = (color == 0) ^ (rng.random(num) < 0.1)
    missing = rng.random(num) < 0.2
    return {
        "color": np.array(["red", "green", "blue"])[color],
        "warm": [None if gone else bool(w) for gone, w in zip(missing, warm, strict=True)],
        "size": color + rng.random(num),
    }


def report_moments(table):
    release = Randomizer.calibrate(SCHEMA, 3.0, report_columns=2).privatize(table)
    return CodeReports.of(Releases.of(release))


def true_shares(table, names):
    codes = [SCHEMA.coded[n].encode_codes(n, table) for n in names]
    out = np.zeros([SCHEMA.coded[n].alphabet.size for n in names])
    np.add.at(out, tuple(codes), 1 / len(codes[0]))
    return out.ravel()


@pytest.mark.parametrize(
    "how",
    [
        {"report_columns": 2},
        {"report_columns": 3},
        {"report": "split", "report_columns": 2},
        {"report": "split", "report_columns": 3, "mechanism": "subset_selection"},
    ],
    ids=["pairs", "triples", "split", "subsets"],
)
def test_intervals_hold_for_every_share(how):
    """Of 60 releases of the same people, nine tenths of all intervals hold the truth.

    The root mean square is .99 to 1.03, with a standard error of .018 to .023, and the share of
    intervals that hold is .89 to .91, with one of .007 to .009 (160 releases each): limits are six
    standard deviations away. Intervals a fifth too short make them 1.25 and .81.
    """
    from privot.tables.files import as_table

    table = as_table(people(1500, np.random.default_rng(0)))
    randomizer = Randomizer.calibrate(SCHEMA, 2.0, **how)
    inside, gaps = [], []
    for _ in range(60):
        reports = CodeReports.of(Releases.of(randomizer.privatize(table)))
        for (questions,) in reports.by_columns.values():
            told = estimate(reports, questions)
            gap = told.mean - true_shares(table, [list(SCHEMA.coded)[q] for q in questions])
            # The people are the same in every release: what differs is the noise alone.
            gaps.append(gap / np.sqrt(told.variance))
            inside.append(np.abs(gaps[-1]) < 1.645)
    inside, gaps = np.concatenate(inside), np.concatenate(gaps)
    assert 0.84 < inside.mean() < 0.96
    assert abs(gaps.mean()) < 0.2  # up to .06, with a standard error of .006
    assert 0.85 < np.sqrt(np.mean(gaps**2)) < 1.15


def test_covariances_are_those_of_the_mean():
    rng = np.random.default_rng(1)
    held = report_moments(people(3000, rng))
    told = estimate(held, (0,), full=True)
    assert np.allclose(told.variance, estimate(held, (0,)).variance)
    assert told.mean.sum() == pytest.approx(1)  # shares add up, so a row of covariances is 0
    assert np.allclose(told.spread.sum(axis=0), 0, atol=1e-12)
    weights = np.array([[1.0], [2.0], [4.0]])
    functional = estimate(held, (0,), weights)
    assert functional.mean[0] == pytest.approx(told.mean @ weights[:, 0])
    assert functional.variance[0] == pytest.approx(weights[:, 0] @ told.spread @ weights[:, 0])


def test_everybody_who_was_asked_counts():
    rng = np.random.default_rng(2)
    held = report_moments(people(900, rng))
    assert [q for (q,) in held.by_columns.values()] == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    assert held.about(2, 0) == [(0, 2)]
    assert sum(estimate(held, q).people for q in [(0, 1), (0, 2), (1, 2)]) == 900
    assert sum(estimate(held, (q,)).people for q in range(3)) == 1800


@pytest.mark.parametrize("mechanism", [RandomizedResponse(5, 1.5), SubsetSelection(12, 1.0)])
def test_indicators_are_unbiased(mechanism):
    reports = mechanism.privatize(np.full(40_000, 3))
    told = mechanism.supports.indicators(reports.reshape(len(reports), -1))
    expected = np.arange(told.shape[1]) == 3
    assert np.abs(told.mean(axis=0) - expected).max() < 5 * told.std(axis=0).max() / 200


@pytest.mark.parametrize("mechanism", ["randomized_response", "subset_selection", "window"])
def test_weights_are_the_people_over_the_variance_of_a_share(mechanism):
    """The variance is that of h, by enumeration of codes and reports; tables have a weight per row."""
    schema = Schema(columns={"size": SCHEMA.columns["size"]})
    randomizer = Randomizer.calibrate(schema, 3.0, mechanism=mechanism)
    reports = CodeReports.of(Releases.of(randomizer.privatize({"size": np.linspace(0, 4, 4000)})))
    (source,) = reports.sources
    form = randomizer.mechanisms["size"].form(schema.coded["size"])
    if mechanism == "window":
        law = form.likelihood
        answers = np.arange(len(law))[:, None]
    else:
        answers = np.array([*combinations(range(4), form.size)])
        contains = form.shares(answers).toarray()
        law = form.ratio**contains / (form.ratio**contains).sum(axis=0)
    h = form.indicators(answers)
    np.testing.assert_allclose(law.T @ h, np.eye(4), atol=1e-9)  # the enumeration is right
    variance = (law.T @ h**2 - np.eye(4)).mean()
    assert source_weight(source, 4) == pytest.approx(4000 / (variance + 1 / 4))


def test_joint_and_split_reports_of_one_law_have_one_weight():
    table, weights = people(2000, np.random.default_rng(0)), []
    for how in ({}, {"report": "split", "mechanism": "randomized_response"}):
        randomizer = Randomizer.calibrate(SCHEMA, 8.0, report_columns=1, **how)
        sources = CodeReports.of(Releases.of(randomizer.privatize(table))).sources
        weights.append([source_weight(s, s.shape[0]) / s.counts.sum() for s in sources])
    assert weights[0] == pytest.approx(weights[1])


def test_an_alphabet_with_little_noise_counts_more_whatever_was_drawn():
    for variance in (0.01, 1.0):
        parts = [Estimate(np.array([float(i)]), np.array([variance]), 10) for i in range(2)]
        both = pooled([(parts[0], np.full((4, 1), 2**0.5)), (parts[1], np.ones((4, 1)))])
        assert both.mean[0] == pytest.approx(2 / 3)
        assert both.variance[0] == pytest.approx(variance * 5 / 9)
        assert both.people == 20


def test_an_interval_is_cut_to_what_can_be():
    assert Interval.of(-0.01, 0.01**2, 0.0, 1.0).low == 0
    assert Interval.of(0.5, 0.1**2, 0.0, 1.0).holds(0.66)
    assert not Interval.of(0.5, 0.1**2, 0.0, 1.0).holds(0.67)

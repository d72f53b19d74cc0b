"""Moments of additive scores: of a law as by all its cells, by reports without bias."""

from itertools import product

import numpy as np
import pytest

import privot
from privot.evaluation import target_check as of
from privot.evaluation.estimates import CodeReports
from privot.evaluation.target_check import Scores, model_moments, report_moments
from privot.local.classes.mixture import LatentClasses
from privot.local.releases import Releases
from privot.randomizer import Randomizer
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.size]
kind = "numeric"
bounds = [0, 10]
[columns.color]
kind = "categorical"
categories = ["red", "green", "blue"]
[columns.rich]
kind = "boolean"
nullable = true
""")


def some_scores(sizes, column, seed):
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(size, 2)) for size in sizes]
    known = np.arange(sizes[column]) < max(sizes[column] - 1, 2)
    weights[column] *= known[:, None]
    return Scores(column, tuple(weights), known * 1.0)


@pytest.mark.parametrize("column", [0, 1, 2])
def test_moments_are_those_of_all_cells(column):
    rng, sizes = np.random.default_rng(0), (2, 3, 4)
    law = LatentClasses(np.array([0.3, 0.7]), tuple(rng.dirichlet(np.ones(k), 2).T for k in sizes))
    scores, expected = some_scores(sizes, column, 1), np.zeros((7, 2))
    for cell in product(*map(range, sizes)):
        share = law.marginal([0, 1, 2])[cell]
        f = scores.weights[column][cell[column]]
        s = sum(scores.weights[c][cell[c]] for c in range(3) if c != column)
        known = np.full(2, scores.known[cell[column]])
        expected += share * np.stack([s * f, s * known, s * s, s, f, f * f, known])
    assert model_moments(law, scores) == pytest.approx(expected)


def test_reports_tell_them_without_bias_and_with_their_spread():
    """People drawn from a law report again and again: errors are as large as they are said to be."""
    rng = np.random.default_rng(0)
    size = rng.uniform(0, 10, 3000)
    color = np.array(["red", "green", "blue"])[np.clip(size // 3.4, 0, 2).astype(int)]
    rich = np.where(rng.random(3000) < 0.2, None, size > 5)
    randomizer = Randomizer.calibrate(SCHEMA, 6.0, report_columns=2)
    first = randomizer.privatize({"size": size, "color": color, "rich": rich.tolist()})
    model = privot.fit(first, seed=0)
    law = model.sampler.atoms
    scores = some_scores(law.sizes, 2, 2)
    true, releases, errors = model_moments(law, scores).ravel(), 25, []
    for seed in range(releases):
        people = model.sample(2000, seed=seed)
        told = report_moments(
            CodeReports.of(Releases.of(randomizer.privatize(people))), law, scores
        )
        errors.append((told.mean - true) / np.sqrt(told.variance))
    # Sums of columns and pairs, each person's as one number: as if pairs were apart it would be wrong.
    # Limits of one in a million: six standard errors, and quantiles of χ² of 25 degrees over 25.
    assert abs(np.mean(errors, axis=0)).max() < 6 / releases**0.5
    squares = np.mean(np.square(errors), axis=0)[[2 * of.SCORE_TARGET, 2 * of.SCORE_SQUARE]]
    assert ((squares > 0.15) & (squares < 3.1)).all()


def test_pairs_that_nobody_was_asked_are_the_models():
    randomizer = Randomizer.calibrate(SCHEMA, 6.0, report_columns=1)
    people = {"size": [1.0, 9.0] * 100, "color": ["red", "blue"] * 100, "rich": [True, None] * 100}
    release = randomizer.privatize(people)
    model = privot.fit(release, seed=0)
    law = model.sampler.atoms
    scores = some_scores(law.sizes, 2, 3)
    told = report_moments(CodeReports.of(Releases.of(release)), law, scores)
    own = model_moments(law, scores)
    pair = law.marginal((0, 2)), scores.weights[0], scores.weights[2]
    expected = np.einsum("ab,ag,bg->g", *pair) + np.einsum(
        "ab,ag,bg->g", law.marginal((1, 2)), scores.weights[1], scores.weights[2]
    )
    assert told.mean.reshape(7, 2)[of.SCORE_TARGET] == pytest.approx(expected)
    assert own[of.SCORE_TARGET] == pytest.approx(expected)
    assert told.people == 200

"""What halves of the reports say of a classifier, beside what it scores on people."""

import numpy as np
import pyarrow as pa
import pytest

import privot
from privot import Randomizer
from privot.evaluation import target_check
from privot.evaluation.estimates import rehearse
from privot.evaluation.target_check import (
    CrossFit,
    LinearPredictor,
    cross_fitted_performance,
    mean_performance,
)
from privot.local.releases import Releases
from rich_people import SCHEMA, people

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def fitted():
    release = Releases.of(Randomizer.calibrate(SCHEMA, 6.0).privatize(people(4000, 0)))
    model = privot.fit(release.newest, seed=0)
    rehearsed = rehearse(model, release, [(0,)], 0)
    whole, reported = rehearsed.model, rehearsed.releases
    both = CrossFit.of(model, release, 0), CrossFit.of(whole, reported, 0)
    return model, (*both, whole, model.sample(20_000, seed=1))


@pytest.mark.parametrize("target", ["rich", "size"])
def test_the_interval_is_about_what_is_made(fitted, target):
    model, rehearsed = fitted
    told = cross_fitted_performance(*rehearsed, target, seed=0)
    made = mean_performance(
        *LinearPredictor.of(model, target, 0).performance(pa.table(people(10_000, 1)))
    )
    width = told.high - told.low
    assert 0.005 < width < 0.3
    assert abs(told.estimate - made) < 5.5 * width / 3.29 + 0.01  # of a 90 % interval
    assert told.estimate > (0.6 if target == "rich" else 0.1)


def test_a_coin_is_not_told(fitted):
    _, rehearsed = fitted
    told = cross_fitted_performance(*rehearsed, "coin", seed=0)
    assert told.estimate - 0.5 < 5.5 * (told.high - told.low) / 3.29  # of a 90 % interval


def test_people_are_dealt_once(fitted):
    _, (own, *_) = fitted
    counts = [sum(source.counts.sum() for source in other.sources) for other in own.others]
    assert sum(counts) == 4000
    assert abs(counts[0] - 2000) < 200  # standard deviation 32


def test_what_halves_cost_is_added(fitted):
    """A whole that teaches what a half does changes what is told by what its own R² is less."""
    _, (own, rehearsed, whole, drawn) = fitted
    half = rehearsed.models[0]
    told, less = (
        cross_fitted_performance(own, rehearsed, each, drawn, "size", seed=0).estimate
        for each in (whole, half)
    )
    scores = [
        mean_performance(*LinearPredictor.of(each, "size", 0).performance(drawn))
        for each in (whole, half)
    ]
    assert scores[0] != scores[1]
    assert told - less == pytest.approx(scores[0] - scores[1], abs=1e-9)


def test_without_noise_a_normal_score_is_told_exactly():
    """One column of many levels and a class by a probit of it: scores are about normal in it."""
    gap = np.array([0.4])
    share, spread = 0.5, 1 + gap[0] ** 2 * 0.25
    moments = np.array([gap / 4, [0.0], [spread], [0.0], [share], [share], [1.0]])
    told = target_check._normal_performance(np.ones(1), np.full(1, 0.5**0.5), moments.ravel())
    assert told == pytest.approx(gap[0] * 0.5**0.5, rel=1e-6)

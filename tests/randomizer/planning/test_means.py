"""Plans of long vectors: means err as planned; simulated accuracy falls with the noise of means."""

import numpy as np
import pytest

from privot.mechanisms import Laplace
from privot.randomizer import Randomizer, plan_reports
from privot.randomizer.column_plans import simulated_accuracy, ways_of_means
from privot.schema import Schema

NAMES = [f"x{i}" for i in range(20)]
SCHEMA = Schema.from_dict(
    {
        "columns": {
            "v": {"kind": "vector", "columns": NAMES, "radius": 1.0},
            "label": {"kind": "categorical", "categories": ["a", "b"]},
        }
    }
)


def test_class_means_of_candidates_err_by_what_is_planned():
    """A norm varies by .14 of what is planned, the mean of 32 is .96 ± .025 of it.

    So the false-alarm rate is 2e-10; a plan that is √2 off is refused as surely.
    """
    rng, people = np.random.default_rng(0), 1000
    points = rng.standard_normal((people, 20))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    codes = rng.integers(2, size=people)
    table = dict(zip(NAMES, points.T, strict=True)) | {"label": np.array(["a", "b"])[codes]}
    plan = plan_reports(SCHEMA, 4.0, people).columns[0]
    assert (plan.measure, plan.recommended.report) == ("class means", "candidates")
    randomizer = Randomizer.calibrate(SCHEMA, 4.0)
    report = randomizer.candidates
    truth = np.stack([report.coordinates.encode(points)[codes == c].mean(axis=0) for c in (0, 1)])
    errors = []
    for _ in range(16):
        release = randomizer.privatize(table)
        moments, _ = report.moments(report.read(release.table))
        errors += list(np.linalg.norm(moments.first * 2 - truth, axis=1))
    assert np.mean(errors) == pytest.approx(plan.recommended.error, rel=0.2)


def test_means_of_noise_err_by_what_is_planned():
    """Laplace noise at ε/2, and labels by randomized response at ε/2, without bias."""
    rng, people = np.random.default_rng(1), 10_000
    way = ways_of_means(SCHEMA, "v", "label", 1e-6, candidates=False)["laplace"]
    randomizer = Randomizer.calibrate(SCHEMA, 4.0, mechanism="laplace")
    assert isinstance(randomizer.mechanisms["v"], Laplace)
    label = np.array(["a", "b"])[rng.integers(2, size=people)]
    same, other = randomizer.mechanisms["label"].probabilities
    errors = []
    for _ in range(30):
        release = randomizer.privatize({n: np.zeros(people) for n in NAMES} | {"label": label})
        y, said = release.reports("v")[0], release.reports("label")[0]
        for code in (0, 1):
            weight = ((said[:, 0] == code) - other) / (same - other)
            errors.append(np.linalg.norm((weight[:, None] * y).mean(axis=0) * 2))
    # Their mean is within a forty-fifth, so the false-alarm rate is below 1e-10.
    assert np.mean(errors) == pytest.approx(way(4.0, people).error, rel=0.15)


def test_pictures_are_told_apart_the_worse_the_noisier_and_by_chance_at_last():
    found = [simulated_accuracy(10, 60, tau) for tau in (0.0, 0.02, 0.05, 0.2, 10.0)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(0.1, abs=0.02)
    assert simulated_accuracy(2, 60, 0.05) > simulated_accuracy(10, 60, 0.05)

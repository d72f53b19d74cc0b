"""The area under the curve, against scikit-learn's and its ends."""

import numpy as np
import pytest

from privot.evaluation.auc import area_under_curve

metrics = pytest.importorskip("sklearn.metrics")


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_is_scikit_learns(classes):
    rng = np.random.default_rng(classes)
    truth = rng.integers(0, classes, 200)
    scores = rng.dirichlet(np.ones(classes), 200).round(1)  # ties
    expected = np.average(
        [metrics.roc_auc_score(truth == k, scores[:, k]) for k in range(classes)],
        weights=np.bincount(truth),
    )
    assert area_under_curve(truth, scores) == pytest.approx(expected)


def test_two_classes_agree_and_constant_scores_know_nothing():
    truth = np.array([0, 1, 1, 0, 1])
    score = np.array([0.1, 0.4, 0.8, 0.5, 0.9])
    both = area_under_curve(truth, np.stack([1 - score, score], axis=1))
    assert both == pytest.approx(5 / 6)
    assert area_under_curve(truth, np.zeros((5, 2))) == 0.5
    assert area_under_curve(np.zeros(5, dtype=int), np.zeros((5, 2))) == 0.5

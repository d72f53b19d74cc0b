r"""CORAL with noisy moments: the source, moved as a whole to the target's mean and covariance.

Correlation alignment gives source features the second moments of the target's, and trains a classifier
on them. Here both moments come of noisy sums: one mean of all target records and, along the first
principal directions of the source (public), one covariance; the map is the optimal transport of
Gaussians. It is the plainest use of noisy sums: no classes, one round.

**Privacy.** Two Gaussian mechanisms on the target, `replace_one`, composed exactly: queries, shares and
shrinkage are those of `privot.central.classifiers.adaptation`, with one class. All else is public, or
post-processing.

References:
    Sun, Feng, Saenko, *Return of frustratingly easy domain adaptation* (2016).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privot.central.classifiers.adaptation import Adaptation, shares, transported
from privot.central.classifiers.adapted import AdaptationSettings, Classifier, as_records
from privot.central.sums import Rounds, SumMechanism, SumPlan, open_ledger
from privot.models import Checkpoint
from privot.privacy import ApproximateDP
from privot.training.loop import threads_for, train


def fit_coral(
    source_x: np.ndarray,
    source_y: np.ndarray,
    target_x: np.ndarray,
    settings: AdaptationSettings,
    steps: int,
) -> tuple[Classifier, ApproximateDP]:
    """Train a classifier on the moved source; and what that has cost the target.

    Arguments:
        source_x: Public records (n, p).
        source_y: Their classes (n,), from 0.
        target_x: Private records (m, p).
        settings: Budget, directions and network; its rounds and refusals are not used.
        steps: Of the optimizer.
    """
    with threads_for(0):
        moved, plan = aligned(source_x, target_x, settings)
        course = Adaptation(moved, source_y, settings)
        train(course.classifier, course.classify, settings.training(steps, 0))
    return course.classifier.eval(), plan.guarantee


def aligned(
    source_x: np.ndarray, target_x: np.ndarray, settings: AdaptationSettings
) -> tuple[np.ndarray, SumPlan]:
    """Source records (n, p) with the target's noisy moments, and the plan of the two releases."""
    one = np.zeros(len(source_x), dtype=np.int64)
    course = Adaptation(source_x, one, replace(settings, rounds=1))
    target = as_records("target_x", target_x)
    plan = SumPlan.calibrate(
        settings.epsilon, settings.delta, shares(1), len(target), settings.unit
    )
    ledger = open_ledger(plan, None, False)
    state = Checkpoint(None, {"source": course.fingerprint}, False)
    try:
        source = course.moments()
        moments = course.estimated(Rounds(SumMechanism((target.numpy(),), ledger), state), source)
    finally:
        ledger.close()
    return transported(course.flat, one, source, moments), plan

"""Adaptation by slices of features: a step depends on the release alone; without privacy it helps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from privot.central.classifiers.adaptation import Adaptation
from privot.central.classifiers.adapted import AdaptationSettings
from studies.rivals.joint_slices import (
    FeatureRecords,
    JointSettings,
    align_slices,
    fit_joint,
    joint_loss,
    mechanism_of,
)

NETWORK = AdaptationSettings(
    epsilon=8.0, unit="record", delta=1e-3, feature_dim=8, hidden=(16,), channels=(), source_batch=64,
    learning_rate=1e-2, averaging=0.9,
)  # fmt: skip
SETTINGS = JointSettings(
    network=NETWORK, steps=150, batch_size=50, num_projections=8, weight=0.5, method="rdp"
)


def domains(shift=1.0):
    """Two classes apart in the first coordinate; the target is moved in the second."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    source = rng.normal(0, 0.3, (400, 3)) + np.stack([2.0 * y, 0 * y, 0 * y], axis=1)
    return source, y, source[rng.permutation(400)] + np.array([0.0, shift, 0.0])


def steps(targets, settings=SETTINGS, held=None):
    """Losses and gradients of a first step by target; `held` is in the place of the release."""
    source, y, _ = domains()
    told = []
    for target in targets:
        course = Adaptation(source, y, settings.network)
        mechanism = mechanism_of(course, target, settings)
        if held is not None:
            mechanism.release = lambda: held
        loss = joint_loss(course, mechanism, settings, torch.Generator().manual_seed(0))
        loss.backward()
        told.append((loss.item(), [p.grad.clone() for p in course.classifier.parameters()]))
    return told


def test_the_step_depends_on_the_release_alone():
    """Change the private target while the released matrix is held fixed: the step stays the same."""
    source, y, target = domains()
    others = target, target[::-1] * 5 - 3
    fixed = mechanism_of(Adaptation(source, y, NETWORK), target, SETTINGS).release()
    (_, first), (_, second) = steps(others, held=fixed)
    assert not fixed.values.requires_grad
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    (_, first), (_, second) = steps(others)
    assert not all(torch.allclose(a, b) for a, b in zip(first, second, strict=True))


def test_a_step_weighs_the_sliced_loss():
    source, y, target = domains()
    fixed = mechanism_of(Adaptation(source, y, NETWORK), target, SETTINGS).release()
    none, half, whole = (
        steps([target], replace(SETTINGS, weight=weight), fixed)[0][0] for weight in (0.0, 0.5, 1.0)
    )
    assert half - none == pytest.approx((whole - none) / 2, rel=1e-3)
    assert abs(half - none) > 1e-3


def test_a_spent_budget_leaves_the_classifier_as_it_is():
    source, y, target = domains()
    course = Adaptation(source, y, NETWORK)
    mechanism = mechanism_of(course, target, SETTINGS)
    mechanism.ledger.spend(mechanism.ledger.plan.steps)
    joint_loss(course, mechanism, SETTINGS, torch.Generator()).backward()
    assert all((p.grad == 0).all() for p in course.classifier.parameters())


def test_the_plan_is_the_networks_budget():
    source, y, target = domains()
    classifier, plan = fit_joint(source, y, target, SETTINGS)
    assert plan == SETTINGS.plan(8.0, 1e-3, 400, FeatureRecords(classifier, "record"))
    assert plan.steps == 150
    assert classifier.classes(torch.from_numpy(target)).shape == (400,)


def test_without_privacy_a_shifted_target_is_found():
    rng = np.random.default_rng(1)
    y = np.arange(600) % 2
    source = rng.normal(0, 0.15, (600, 2)) + np.stack([0.3 + y, 0.6 - 0.2 * y], axis=1)
    target = source[rng.permutation(600)] + np.array([0.55, 0.0])
    right = torch.from_numpy(target[:, 0] > 0.3 + 0.5 + 0.55)

    def accuracy(weight):
        settings = replace(SETTINGS, num_projections=16, weight=weight)
        found = align_slices(source, y, target, settings).classes(torch.from_numpy(target)) == 1
        return float((found == right).float().mean())

    assert accuracy(1.0) > max(accuracy(0.0) + 0.1, 0.8)

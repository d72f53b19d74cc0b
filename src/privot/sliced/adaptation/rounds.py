r"""Domain adaptation to a private, unlabeled target.

A classifier h∘g is trained on a public, labeled source so that it holds on the target. Of the target,
only noisy slices are released; h∘g is never trained on it. In rounds (`alignment="adapter"`):

1. train h∘g on source records moved by the adapter A (at first the identity), labels known;
2. freeze it: the record of x is ρ(x) = p(x) ⊗ g(x), class probabilities times features. Its mean holds
   the mean feature of every predicted class, so that *conditional* alignment is a first moment;
3. release slices of ρ(x_t), pool their mean μ̂ over the round's releases;
4. fit A and class shares w, from the source, by the mean part of the sliced loss (the only part that
   rises above the noise; `privot.sliced.loss`):

$$ \min_{A, w} \big‖ \hat μ - \sum_c w_c\, E[ρ(A x_s) \mid y_s = c] \big‖^2, $$

   estimated without bias from two independent halves of a source batch.

As ρ is frozen within a round, the target's side does not depend on what is trained: the step is a true
gradient of the distance, though the released slices are constants. The classifier that is returned
is h∘g without the adapter, to be applied to target records as they are. `alignment="joint"` is the
published algorithm (`privot.sliced.adaptation.joint`).

**Privacy.** Steps 1, 2 and 4 see the public source and earlier releases alone: releases compose
adaptively, and the ledger counts them all. Records lie in the unit ball with ⟨ρ, ρ′⟩ ≥ 0: Δ = √2
under replace_one. Everything returned is a function of the releases: the classifier may be published.
Adjacency, timing and counts: see `privot.sliced.releases.mechanism`. Tuning on target labels, or
choosing the best of several runs by them, would be paid for by nobody.

**Resuming.** The checkpoint is written after every stage; a kill loses the stage, and releases whose
effect was lost stay spent.
"""

from __future__ import annotations

import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privot.disk import Ledger
from privot.errors import PrivotError
from privot.limits import MOST_CODES
from privot.models import Checkpoint
from privot.sliced.adaptation.adapters import make_adapter, random_affine
from privot.sliced.adaptation.classifier import (
    AdaptationSettings,
    AdaptedClassifier,
    Classifier,
    as_records,
)
from privot.sliced.adaptation.joint import TargetFeatures, adaptation_loss
from privot.sliced.releases.checkpoints import Counted, load_counted, open_ledger, save_counted
from privot.sliced.releases.given import given_labels
from privot.sliced.releases.mechanism import SlicingMechanism
from privot.sliced.releases.plan import Plan
from privot.sliced.releases.pooled import PooledMean
from privot.training import Progress, TrainingSettings, train
from privot.training.interrupt import deferred_interruption
from privot.training.loop import Interrupted, Objective
from privot.training.threads import threads_for

_ADAPTER_RATE, _ADAPTER_AVERAGING = 1e-2, 0.9
_ADAPTER_BATCH = 400
_SMALLEST_SHARE = 1e-3


def adapt(
    source_x: np.ndarray,
    source_y: np.ndarray,
    target_x: np.ndarray,
    settings: AdaptationSettings,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> AdaptedClassifier:
    """Learn to classify a private, unlabeled target from a public, labeled source.

    Arguments:
        source_x: Public records (n, …), scaled by public numbers to [0, 1].
        source_y: Their classes (n,), from 0.
        target_x: Private records (m, …), scaled alike.
        settings: Budget and method.
        checkpoint: File of the run's state; its ledger lies beside it.
        resume: Whether to go on with both.
        progress: Told after every step of a stage.

    Raises:
        PrivotError: for records that do not fit each other, or a ledger of another plan.
        Interrupted: on a signal, after saving.
    """
    x, target = as_records(source_x), as_records(target_x)
    y = given_labels(source_y, len(x), MOST_CODES)
    if x.shape[1:] != target.shape[1:]:
        raise PrivotError(
            f"source of {tuple(x.shape)} and target of {tuple(target.shape)} do not fit: give records "
            "of one shape"
        )
    num_classes, shape = int(y.max()) + 1, tuple(x.shape[1:])
    course = Course(shape, num_classes, y, settings)
    path = None if checkpoint is None else Path(checkpoint)
    ledger = open_ledger(settings.plan(len(target), course.record_map()), path, resume)
    try:
        with threads_for(0):
            if settings.alignment == "joint":
                _adapt_jointly(course, x, y, target, ledger, path, resume, progress)
            else:
                _adapt_in_rounds(course, x, y, target, ledger, path, resume, progress)
    finally:
        ledger.close()
    classifier = course.classifier.eval()
    return AdaptedClassifier(classifier, ledger.plan, ledger.spent, settings, shape, num_classes)


class FrozenRecords:
    """ρ = p ⊗ g of the classifier as it stands, as the record map of target records."""

    num_labels = 1
    non_negative = True

    def __init__(self, classifier: Classifier, unit: str) -> None:
        self.unit = unit
        self.classifier = copy.deepcopy(classifier).requires_grad_(False).eval()
        self.width = classifier.num_classes * classifier.h.in_features

    def prepare(self, values: Tensor) -> Tensor:
        """Records of raw values: once for a round, the classifier stays as it is."""
        return self.classifier.joint_records(values.float())

    def features(self, prepared: Tensor) -> Tensor:
        """See `RecordMap`."""
        return prepared

    def to_dict(self) -> dict[str, Any]:
        """See `RecordMap`."""
        return {"kind": "joint", "width": self.width}


class Course(nn.Module):
    """All that a run in rounds has learned, and how many of its stages are done."""

    target: Tensor
    stage: Tensor

    def __init__(
        self, shape: tuple[int, ...], num_classes: int, y: Tensor, settings: AdaptationSettings
    ) -> None:
        super().__init__()
        self.settings = settings
        self.classifier = Classifier(shape, num_classes, settings)
        counts = torch.bincount(y, minlength=num_classes).float()
        self.source_shares = (counts / len(y)).clamp_min(_SMALLEST_SHARE)
        self.adapter = make_adapter(
            self.classifier.shape, self.classifier.images, self.source_shares, settings.seed
        )
        width = num_classes * settings.feature_dim
        self.register_buffer("target", torch.zeros(width))
        self.register_buffer("stage", torch.zeros((), dtype=torch.int64))

    def record_map(self) -> FrozenRecords | TargetFeatures:
        """The record map of the target as the classifier stands."""
        if self.settings.alignment == "joint":
            return TargetFeatures(self.classifier, self.settings.feature_dim, self.settings.unit)
        return self.frozen()

    def frozen(self) -> FrozenRecords:
        """ρ of the classifier as it stands, whatever becomes of it."""
        return FrozenRecords(self.classifier, self.settings.unit)

    def classify(self, x: Tensor, y: Tensor) -> Objective:
        """Cross-entropy on moved, jittered source records."""
        settings = self.settings
        x = x.reshape(len(x), *self.classifier.shape)

        def objective(rng: torch.Generator) -> tuple[Tensor, float]:
            rows = torch.randint(len(x), (settings.source_batch,), generator=rng)
            jitter = random_affine(len(rows), settings.jitter, rng) if settings.jitter else None
            with torch.no_grad():
                moved = self.adapter(x[rows], jitter)
            return nn.functional.cross_entropy(self.classifier(moved), y[rows]), 0.0

        return objective

    def align(self, x: Tensor, y: Tensor) -> Objective:
        """Squared distance of mean records, of the moved and reweighted source and the target."""
        frozen = copy.deepcopy(self.classifier).requires_grad_(False)
        x = x.reshape(len(x), *self.classifier.shape)

        def objective(rng: torch.Generator) -> tuple[Tensor, float]:
            rows = torch.randint(len(x), (_ADAPTER_BATCH,), generator=rng)
            weights = (self.adapter.shares / self.source_shares)[y[rows]]
            records = weights[:, None] * frozen.joint_records(self.adapter(x[rows]))
            first, second = records.reshape(2, -1, len(self.target)).mean(dim=1) - self.target
            return (first * second).sum(), 0.0

        return objective


def _adapt_in_rounds(
    course: Course,
    x: Tensor,
    y: Tensor,
    target: Tensor,
    ledger: Ledger[Plan],
    path: Path | None,
    resume: bool,
    progress: Progress | None,
) -> None:
    settings, counted = course.settings, Counted(course=course)
    made_with = asdict(settings)
    if resume and path is not None and path.exists():
        load_counted(counted, made_with, ledger, path)
    ledger.begin()  # a checkpoint without its ledger is not resumed
    for stage in range(int(course.stage), 1 + 3 * settings.rounds):
        seed = settings.seed * 1009 + stage
        current, kind = divmod(stage + 2, 3)  # round 0 has its training only
        if kind == 2:
            steps = settings.training_steps if stage == 0 else -(-settings.training_steps // 2)
            how = TrainingSettings(steps, settings.learning_rate, settings.averaging, seed)
            train(course.classifier, course.classify(x, y), how, progress=progress)
        elif kind == 0:
            due = ledger.plan.steps * current // settings.rounds - ledger.spent
            if due > 0:
                mechanism = SlicingMechanism(target, None, course.record_map(), ledger)
                course.target = pool(mechanism, due, progress)
        else:
            how = adapter_training(settings, seed)
            train(course.adapter, course.align(x, y), how, progress=progress)
        course.stage += 1
        if path is not None:
            ledger.close()
            save_counted(counted, made_with, ledger, path)


def adapter_training(settings: AdaptationSettings, seed: int) -> TrainingSettings:
    """How an adapter is fitted in one round."""
    return TrainingSettings(settings.adapter_steps, _ADAPTER_RATE, _ADAPTER_AVERAGING, seed)


def pool(mechanism: SlicingMechanism, releases: int, progress: Progress | None = None) -> Tensor:
    """The mean record pooled over as many new releases.

    Raises:
        Interrupted: on a signal, between two releases.
    """
    pooled = PooledMean(mechanism.ledger.plan)
    with deferred_interruption() as interruption:
        for made in range(releases):
            pooled.add(mechanism.release())
            if progress is not None:
                progress(made + 1, releases, pooled.stddev)
            if interruption.requested:
                raise Interrupted(f"stopped after release {mechanism.ledger.spent}")
    return pooled.estimate


def _adapt_jointly(
    course: Course,
    x: Tensor,
    y: Tensor,
    target: Tensor,
    ledger: Ledger[Plan],
    path: Path | None,
    resume: bool,
    progress: Progress | None,
) -> None:
    settings, classifier = course.settings, course.classifier
    mechanism = SlicingMechanism(target, None, course.record_map(), ledger)
    counted = Counted(classifier=classifier)
    images = x.reshape(len(x), *classifier.shape)

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        rows = torch.randint(len(x), (min(settings.source_batch, len(x)),), generator=rng)
        jitter = random_affine(len(rows), settings.jitter, rng) if settings.jitter else None
        with torch.no_grad():
            moved = course.adapter(images[rows], jitter)
        loss = adaptation_loss(classifier, moved, y[rows], mechanism, settings, rng)
        counted.count(ledger)
        return loss, 0.0

    how = TrainingSettings(
        settings.steps, settings.learning_rate, settings.averaging, settings.seed
    )
    identity = {"settings": asdict(settings), "ledger": ledger.id}
    train(
        counted,
        objective,
        how,
        checkpoint=Checkpoint(path, identity, resume),
        progress=progress,
        seek=lambda _: counted.check(ledger),
    )

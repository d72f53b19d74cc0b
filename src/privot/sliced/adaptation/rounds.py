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
is h∘g without the adapter, to be applied to target records as they are.

**Jointly, as published** (`alignment="joint"`), g follows the sliced loss at every step:

$$ \min_{g,h}\; \mathrm{CE}(h(g(x_s)), y_s) + w · d · \mathrm{SW}_{q,σ}^q\big(g(x_s), g(x_t)\big), $$

where target features enter as **released slices only** (Rakotomamonjy, Ralaivola 2021, algorithm
2). Per release, g as it stands is the record map: it depends on earlier releases and the public source
alone, so the steps compose adaptively. Gradient flows through g(x_s), never through g(x_t), which would
multiply by derivatives at raw private records. Two runs whose released matrices agree take the same
step, whatever the target.

**What that costs.** With one branch held constant the step is no gradient of a distance: whatever moves
both domains alike (a shared bias) is followed for ever, though it brings them no nearer. Moving the
source by an adapter of its own does not have this fault.

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

import numpy as np
import torch
from torch import Tensor, nn

from privot.disk import BudgetExhausted, Ledger
from privot.errors import MOST_CODES, PrivotError
from privot.models import Checkpoint
from privot.sliced.adaptation.adapters import make_adapter, random_affine
from privot.sliced.adaptation.classifier import (
    AdaptationSettings,
    AdaptedClassifier,
    Classifier,
    ClassifierRecords,
    as_records,
)
from privot.sliced.loss import PooledMean, smoothed_sliced_loss, with_blanks
from privot.sliced.records import RecordMap
from privot.sliced.releases.mechanism import SlicingMechanism, given_labels
from privot.sliced.releases.plan import Counted, SlicePlan, open_ledger
from privot.training import Interrupted, Progress, TrainingSettings, deferred_interruption, train
from privot.training.loop import Objective
from privot.training.parallel import threads_for

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
        PrivotError: for records that do not fit each other, a weight of no loss, or a ledger of another
            plan.
        Interrupted: on a signal, after saving.
    """
    if settings.weight != 1.0 and settings.alignment != "joint":
        raise PrivotError(
            f"weight {settings.weight} is of alignment 'joint'; {settings.alignment!r} has a single "
            "loss, which no weight changes: leave it out"
        )
    course, target = Course.of(source_x, source_y, settings), as_records("target_x", target_x)
    if course.shape != tuple(target.shape[1:]):
        raise PrivotError(
            f"source of {course.shape} and target of {tuple(target.shape[1:])} do not fit: give "
            "records of one shape"
        )
    path = None if checkpoint is None else Path(checkpoint)
    plan = settings.plan(settings.epsilon, settings.delta, len(target), course.record_map())
    ledger = open_ledger(plan, path, resume)
    identity = {"ledger": ledger.id, "settings": asdict(settings)}
    state = Checkpoint(path, identity, resume)
    try:
        with threads_for(0):
            if settings.alignment == "joint":
                _adapt_jointly(course, target, ledger, state, progress)
            else:
                _adapt_in_rounds(course, target, ledger, state, progress)
    finally:
        ledger.close()
    return AdaptedClassifier(
        course.classifier.eval(), ledger.plan, ledger.spent, settings, course.shape
    )


class Course(nn.Module):
    """All that a run has learned of a public source, and how many of its stages are done."""

    target: Tensor
    stage: Tensor

    def __init__(
        self, x: Tensor, y: Tensor, num_classes: int, settings: AdaptationSettings
    ) -> None:
        super().__init__()
        self.settings, self.shape, self.y = settings, tuple(x.shape[1:]), y
        self.classifier = Classifier(self.shape, num_classes, settings)
        self.x = x.reshape(len(x), *self.classifier.shape)
        counts = torch.bincount(y, minlength=num_classes).float()
        self.source_shares = (counts / len(y)).clamp_min(_SMALLEST_SHARE)
        self.adapter = make_adapter(
            self.classifier.shape, self.classifier.images, self.source_shares, settings.seed
        )
        width = num_classes * settings.feature_dim
        self.register_buffer("target", torch.zeros(width))
        self.register_buffer("stage", torch.zeros((), dtype=torch.int64))

    @classmethod
    def of(cls, source_x: np.ndarray, source_y: np.ndarray, settings: AdaptationSettings) -> Course:
        """The course that begins at a source, given as arrays."""
        x = as_records("source_x", source_x)
        y = given_labels(source_y, len(x), MOST_CODES)
        return cls(x, y, int(y.max()) + 1, settings)

    def record_map(self) -> RecordMap:
        """The record map of the target as the classifier stands."""
        frozen = self.settings.alignment != "joint"
        return ClassifierRecords(self.classifier, self.settings.unit, frozen)

    def batch(self, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Source records, moved and jittered, and their classes."""
        rows = torch.randint(len(self.x), (self.settings.source_batch,), generator=rng)
        amount = self.settings.jitter
        jitter = random_affine(len(rows), amount, rng) if amount else None
        with torch.no_grad():
            return self.adapter(self.x[rows], jitter), self.y[rows]

    def classify(self, rng: torch.Generator) -> tuple[Tensor, float]:
        """Cross-entropy on a batch of the source."""
        x, y = self.batch(rng)
        return nn.functional.cross_entropy(self.classifier(x), y), 0.0

    def align(self) -> Objective:
        """Squared distance of mean records, of the moved and reweighted source and the target."""
        frozen = copy.deepcopy(self.classifier).requires_grad_(False)

        def objective(rng: torch.Generator) -> tuple[Tensor, float]:
            rows = torch.randint(len(self.x), (_ADAPTER_BATCH,), generator=rng)
            weights = (self.adapter.shares / self.source_shares)[self.y[rows]]
            records = weights[:, None] * frozen.joint_records(self.adapter(self.x[rows]))
            first, second = records.reshape(2, -1, len(self.target)).mean(dim=1) - self.target
            return (first * second).sum(), 0.0

        return objective


def _adapt_in_rounds(
    course: Course,
    target: Tensor,
    ledger: Ledger[SlicePlan],
    state: Checkpoint,
    progress: Progress | None,
) -> None:
    settings, counted = course.settings, Counted(course=course)
    counted.restore(state, ledger)
    ledger.begin()  # a checkpoint without its ledger is not resumed
    for stage in range(int(course.stage), 1 + 3 * settings.rounds):
        seed = settings.seed * 1009 + stage
        current, kind = divmod(stage + 2, 3)  # round 0 has its training only
        if kind == 2:
            steps = settings.training_steps if stage == 0 else -(-settings.training_steps // 2)
            how = TrainingSettings(steps, settings.learning_rate, settings.averaging, seed)
            train(course.classifier, course.classify, how, progress=progress)
        elif kind == 0:
            due = ledger.plan.steps * current // settings.rounds - ledger.spent
            if due > 0:
                mechanism = SlicingMechanism(target, None, course.record_map(), ledger)
                course.target = pool(mechanism, due, progress)
        else:
            how = adapter_training(settings, seed)
            train(course.adapter, course.align(), how, progress=progress)
        course.stage += 1
        ledger.close()
        counted.keep(state, ledger)


def adapter_training(settings: AdaptationSettings, seed: int) -> TrainingSettings:
    """How an adapter is fitted in one round."""
    return TrainingSettings(settings.adapter_steps, _ADAPTER_RATE, _ADAPTER_AVERAGING, seed)


def pool(mechanism: SlicingMechanism, releases: int, progress: Progress | None = None) -> Tensor:
    """The mean record pooled over as many new releases."""
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
    target: Tensor,
    ledger: Ledger[SlicePlan],
    state: Checkpoint,
    progress: Progress | None,
) -> None:
    mechanism = SlicingMechanism(target, None, course.record_map(), ledger)
    counted = Counted(classifier=course.classifier)

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        loss = joint_loss(course, mechanism, rng)
        counted.count(ledger)
        return loss, 0.0

    train(
        counted,
        objective,
        course.settings.training,
        checkpoint=state,
        progress=progress,
        seek=lambda _: counted.check(ledger),
    )


def joint_loss(course: Course, mechanism: SlicingMechanism, rng: torch.Generator) -> Tensor:
    """Loss of one joint step, on a source batch and one release of the target.

    Once the budget is spent it is 0 with a gradient of 0: the classifier stays as it is.
    """
    (x, y), settings, plan = course.batch(rng), course.settings, mechanism.ledger.plan
    features = course.classifier.features(x)
    scores = course.classifier.scores(features)
    try:
        slices = mechanism.release()
    except BudgetExhausted:
        return 0.0 * scores.sum()
    projected = with_blanks(features @ slices.directions, plan)
    distance = smoothed_sliced_loss(slices.values, projected, plan.stddev, settings.q, rng)
    wrong = nn.functional.cross_entropy(scores, y)
    return wrong + settings.weight * settings.feature_dim * distance

r"""Adaptation by noisy slices of features, as published (DP-SWD), and without privacy (SWD).

A classifier h∘g follows, at every step,

$$ \min_{g,h}\; \mathrm{CE}(h(g(x_s)), y_s) + w · d · \mathrm{SW}_{q,σ}^q\big(g(x_s), g(x_t)\big) . $$

- `fit_joint`: target features enter as **released slices only** (algorithm 2). Per release, g as it
  stands is the record map: it depends on earlier releases and the public source alone, so the steps
  compose adaptively. Gradient flows through g(x_s), never through g(x_t), which would multiply by
  derivatives at raw private records. Two runs whose released matrices agree take the same step.
- `align_slices`: exact slices of target batches, and gradient through **both** branches, as no privacy
  forbids it: "SWD" of the paper's tables. It sees raw target records: there is no guarantee.

**What the first costs.** With one branch held constant the step is no gradient of a distance: whatever
moves both domains alike (a shared bias) is followed for ever, though it brings them no nearer.

**Privacy** of `fit_joint`: features lie in the unit ball with ⟨g, g′⟩ ≥ 0, so Δ = √2 under replace_one;
`SlicingMechanism` alone sees target records.

References:
    Rakotomamonjy, Ralaivola, *Differentially private sliced Wasserstein distance* (2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from privot.central import SliceSettings
from privot.central.classifiers.adaptation import Adaptation
from privot.central.classifiers.adapted import AdaptationSettings, Classifier, as_records
from privot.central.slice_fit import smoothed_sliced_loss, with_blanks
from privot.central.slices import SlicePlan, SlicingMechanism
from privot.privacy.ledger import BudgetExhausted, Ledger
from privot.training.loop import TrainingSettings, threads_for, train
from studies.common.directions import random_directions


@dataclass(frozen=True, kw_only=True)
class JointSettings(SliceSettings):
    """Public numbers of both; what else a run decides see `SliceSettings`.

    Arguments:
        network: Architecture, changes of source images, budget.
        weight: w of the sliced loss, whose exponent is q.
    """

    network: AdaptationSettings
    batch_size: int = 128
    num_projections: int = 32
    orthonormal: bool = True
    weight: float = 1.0

    @property
    def training(self) -> TrainingSettings:
        """See `SliceSettings`: the network's, for as many steps."""
        return self.network.training(self.steps, 0)


class FeatureRecords:
    """What a classifier, as it stands, makes of target records: no gradient ever reaches them."""

    num_labels = 1
    non_negative = True

    def __init__(self, classifier: Classifier, unit: str) -> None:
        self.unit, self.classifier = unit, classifier
        self.width = classifier.h.in_features

    def prepare(self, values: Tensor) -> Tensor:
        """See `FeatureMap`."""
        return values

    @torch.no_grad()
    def features(self, prepared: Tensor) -> Tensor:
        """See `FeatureMap`."""
        return self.classifier.features(prepared.float())


def fit_joint(
    source_x: np.ndarray, source_y: np.ndarray, target_x: np.ndarray, settings: JointSettings
) -> tuple[Classifier, SlicePlan]:
    """The published private training; the classifier, and the plan of its releases."""
    course = Adaptation(source_x, source_y, settings.network)
    mechanism = mechanism_of(course, target_x, settings)

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        return joint_loss(course, mechanism, settings, rng), 0.0

    with threads_for(0):
        train(course.classifier, objective, settings.training)
    return course.classifier.eval(), mechanism.ledger.plan


def mechanism_of(
    course: Adaptation, target_x: np.ndarray, settings: JointSettings
) -> SlicingMechanism:
    """Who releases slices of the target's features."""
    target, network = as_records("target_x", target_x), settings.network
    records = FeatureRecords(course.classifier, network.unit)
    plan = settings.plan(network.epsilon, network.delta, len(target), records)
    return SlicingMechanism(target, None, records, Ledger(plan))


def joint_loss(
    course: Adaptation, mechanism: SlicingMechanism, settings: JointSettings, rng: torch.Generator
) -> Tensor:
    """Loss of one step, on a source batch and one release of the target.

    Once the budget is spent it is 0 with a gradient of 0: the classifier stays as it is.
    """
    (x, y), plan = course.batch(rng), mechanism.ledger.plan
    features = course.classifier.features(x)
    scores = course.classifier.scores(features)
    try:
        slices = mechanism.release()
    except BudgetExhausted:
        return 0.0 * scores.sum()
    projected = with_blanks(features @ slices.directions, plan)
    distance = smoothed_sliced_loss(slices.values, projected, plan.stddev, settings.q, rng)
    wrong = nn.functional.cross_entropy(scores, y)
    return wrong + settings.weight * settings.network.feature_dim * distance


def align_slices(
    source_x: np.ndarray, source_y: np.ndarray, target_x: np.ndarray, settings: JointSettings
) -> Classifier:
    """The published training without privacy, q = 2."""
    network = settings.network
    course, target = Adaptation(source_x, source_y, network), as_records("target_x", target_x)
    classifier = course.classifier

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        moved, y = course.batch(rng)
        drawn = torch.randint(len(target), (network.source_batch,), generator=rng)
        features = classifier.features(moved)
        wrong = nn.functional.cross_entropy(classifier.scores(features), y)
        directions = random_directions(network.feature_dim, settings.num_projections, rng)
        directions = directions.to(features)
        ours = (features @ directions).sort(dim=0).values
        theirs = (classifier.features(target[drawn]) @ directions).sort(dim=0).values
        distance = (ours - theirs).square().mean()
        return wrong + settings.weight * network.feature_dim * distance, 0.0

    with threads_for(0):
        train(classifier, objective, settings.training)
    return classifier.eval()

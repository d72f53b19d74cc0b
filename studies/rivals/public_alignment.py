r"""Adaptation by the same losses without privacy: what the noise of released slices costs.

- `align_means`: the rounds of `privot.sliced.adaptation.rounds` with the exact mean record of the
  target;
- `align_slices`: the published joint training with exact slices of target batches, and gradient through
  **both** branches, as no privacy forbids it: "SWD" of the paper's tables.

Both see raw target records: there is no guarantee.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from privot.sliced.adaptation.classifier import AdaptationSettings, Classifier, as_records
from privot.sliced.adaptation.rounds import Course, adapter_training
from privot.training import TrainingSettings, train
from privot.training.parallel import threads_for
from privot.transport.exact import random_directions

_CHUNK = 2000


def align_means(
    source_x: np.ndarray, source_y: np.ndarray, target_x: np.ndarray, settings: AdaptationSettings
) -> Classifier:
    """As `adapt` with an adapter and no noise at all."""
    course, target = Course.of(source_x, source_y, settings), as_records("target_x", target_x)
    rate, average, seed = settings.learning_rate, settings.averaging, settings.seed
    first, later = settings.training_steps, -(-settings.training_steps // 2)
    with threads_for(0):
        train(course.classifier, course.classify, TrainingSettings(first, rate, average, seed))
        for turn in range(1, settings.rounds + 1):
            frozen = course.record_map()
            records = torch.cat([frozen.prepare(part) for part in target.split(_CHUNK)])
            course.target = records.mean(dim=0)
            train(course.adapter, course.align(), adapter_training(settings, seed + turn))
            how = TrainingSettings(later, rate, average, seed + turn)
            train(course.classifier, course.classify, how)
    return course.classifier.eval()


def align_slices(
    source_x: np.ndarray, source_y: np.ndarray, target_x: np.ndarray, settings: AdaptationSettings
) -> Classifier:
    """Cross-entropy on the source plus w · d times the sliced distance of features, q = 2."""
    course, target = Course.of(source_x, source_y, settings), as_records("target_x", target_x)
    classifier = course.classifier

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        moved, y = course.batch(rng)
        drawn = torch.randint(len(target), (settings.source_batch,), generator=rng)
        features = classifier.features(moved)
        wrong = nn.functional.cross_entropy(classifier.scores(features), y)
        directions = random_directions(settings.feature_dim, settings.num_projections, rng)
        directions = directions.to(features)
        ours = (features @ directions).sort(dim=0).values
        theirs = (classifier.features(target[drawn]) @ directions).sort(dim=0).values
        distance = (ours - theirs).square().mean()
        return wrong + settings.weight * settings.feature_dim * distance, 0.0

    rate, average, seed = settings.learning_rate, settings.averaging, settings.seed
    with threads_for(0):
        train(classifier, objective, TrainingSettings(settings.steps, rate, average, seed))
    return classifier.eval()

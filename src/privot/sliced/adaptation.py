r"""Domain adaptation to a private, unlabeled target.

A classifier h∘g is trained on a public, labeled source so that the features of both domains look alike:

$$ \min_{g,h}\; \mathrm{CE}(h(g(x_s)), y_s) + w · d · \mathrm{SW}_{q,σ}^q\big(g(x_s), g(x_t)\big), $$

where target features enter as **released slices only** (Rakotomamonjy, Ralaivola 2021, algorithm
2). Per release, g as it stands is the record map: it depends on earlier releases and the public
source alone, so the steps compose adaptively. Released slices are constants: gradient flows through
g(x_s), never through g(x_t), which would multiply by derivatives at raw private records. Two runs
whose released matrices agree take the same step, whatever the target.

g has no batch norm: the features of a record are a function of it alone. They are rectified and
divided by their norm, so that every record lies on the sphere of the public radius, with ⟨g, g′⟩ ≥
0: Δ = √2·R under replace_one. Everything returned is a function of the releases: the classifier may
be published. Adjacency, Δ, timing and counts: see `privot.sliced.mechanism`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privot.errors import PrivotError
from privot.sliced.classifier import AdaptationSettings, AdaptedClassifier, Classifier, flat
from privot.sliced.ledger import BudgetExhausted, Ledger
from privot.sliced.loss import smoothed_sliced_loss
from privot.sliced.mechanism import SlicingMechanism
from privot.training import Progress, TrainingSettings, train
from privot.training.threads import threads_for


class TargetFeatures:
    """g as it stands, as the record map of target records: no gradient ever reaches them."""

    num_labels = 1
    non_negative = True

    def __init__(self, classifier: Classifier, width: int) -> None:
        self._classifier, self.width = classifier, width

    def prepare(self, values: Tensor) -> Tensor:
        """Target records as they are."""
        return values

    @torch.no_grad()
    def features(self, prepared: Tensor) -> Tensor:
        """Their features."""
        return self._classifier.features(prepared.float())

    def to_dict(self) -> dict[str, Any]:
        """See `RecordMap`."""
        return {"kind": "features", "width": self.width}


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
        source_x: Public records (n, …), scaled by public numbers to about [0, 1].
        source_y: Their classes (n,), from 0.
        target_x: Private records (m, …), scaled alike.
        settings: Budget and method.
        checkpoint: File of the run's state; its ledger lies beside it.
        resume: Whether to go on with both.
        progress: Told after every step.

    Raises:
        PrivotError: for records that do not fit each other, or a ledger of another plan.
        Interrupted: on a signal, after saving.
    """
    x, target = flat(source_x), flat(target_x)
    y = torch.from_numpy(np.asarray(source_y).astype(np.int64))
    if x.shape[1] != target.shape[1] or len(x) != len(y) or bool((y < 0).any()):
        raise PrivotError(
            f"source of {tuple(x.shape)} with {len(y)} labels and target of {tuple(target.shape)} "
            "do not fit: give records of one dimension, and a class from 0 for each of the source"
        )
    num_classes = int(y.max()) + 1
    classifier = Classifier(x.shape[1], num_classes, settings)
    features = TargetFeatures(classifier, settings.feature_dim)
    path = None if checkpoint is None else Path(checkpoint)
    file = None if path is None else path.with_name(path.name + ".ledger")
    ledger = Ledger(settings.plan(len(target), features), file, resume)
    mechanism = SlicingMechanism(target, None, features, ledger)

    def objective(rng: torch.Generator) -> tuple[Tensor, float]:
        rows = torch.randint(len(x), (min(settings.source_batch, len(x)),), generator=rng)
        return adaptation_loss(classifier, x[rows], y[rows], mechanism, settings, rng), 0.0

    try:
        with threads_for(0):
            train(
                classifier,
                objective,
                TrainingSettings(
                    settings.steps, settings.learning_rate, settings.averaging, settings.seed
                ),
                checkpoint=path,
                resume=resume,
                identity={"settings": json.loads(json.dumps(asdict(settings)))},
                progress=progress,
            )
    finally:
        ledger.close()
    return AdaptedClassifier(
        classifier.eval(), ledger.plan, ledger.spent, settings, x.shape[1], num_classes
    )


def adaptation_loss(
    classifier: Classifier,
    x: Tensor,
    y: Tensor,
    mechanism: SlicingMechanism,
    settings: AdaptationSettings,
    rng: torch.Generator,
) -> Tensor:
    """Loss of one step on source records x (n, p), y (n,), and one release of the target.

    Once the budget is spent it is 0 with a gradient of 0: the classifier stays as it is.
    """
    features = classifier.features(x)
    try:
        slices = mechanism.release()
    except BudgetExhausted:
        return 0.0 * classifier.scores(features).sum()
    projected = features @ slices.directions
    plan = mechanism.ledger.plan
    padding = plan.rows / plan.accounting.batch_size
    blanks = round(len(projected) * (padding - 1))
    projected = torch.cat([projected, projected.new_zeros(blanks, projected.shape[1])])
    distance = smoothed_sliced_loss(slices.values, projected, plan.stddev, settings.q, rng)
    wrong = nn.functional.cross_entropy(classifier.scores(features), y)
    return wrong + settings.weight * settings.feature_dim * distance

r"""Joint adaptation as published: g follows the sliced loss at every step, target slices are constants.

$$ \min_{g,h}\; \mathrm{CE}(h(g(x_s)), y_s) + w · d · \mathrm{SW}_{q,σ}^q\big(g(x_s), g(x_t)\big), $$

where target features enter as **released slices only** (Rakotomamonjy, Ralaivola 2021, algorithm
2). Per release, g as it stands is the record map: it depends on earlier releases and the public source
alone, so the steps compose adaptively. Gradient flows through g(x_s), never through g(x_t), which would
multiply by derivatives at raw private records. Two runs whose released matrices agree take the same
step, whatever the target.

**What that costs.** With one branch held constant the step is no gradient of a distance: whatever moves
both domains alike (a shared bias) is followed for ever, though it brings them no nearer. Moving the
source by an adapter of its own does not have this fault (`privot.sliced.adaptation.rounds`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from privot.disk import BudgetExhausted
from privot.sliced.adaptation.classifier import AdaptationSettings, Classifier
from privot.sliced.loss import smoothed_sliced_loss
from privot.sliced.releases.mechanism import SlicingMechanism


class TargetFeatures:
    """g as it stands, as the record map of target records: no gradient ever reaches them."""

    num_labels = 1
    non_negative = True

    def __init__(self, classifier: Classifier, width: int, unit: str) -> None:
        self._classifier, self.width, self.unit = classifier, width, unit

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

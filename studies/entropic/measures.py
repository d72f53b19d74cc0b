r"""W₂ and the excess entropic cost between batches, with the floors that say how to read them.

**W₂ of samples is not W₂ of laws.** In 784 dimensions two honest samples of a thousand digits are some
12 apart, and a thousand points near the *mean* image come closer to the sample than fresh digits do: a
generator that shrinks towards the mean is rewarded. The papers report W₂ only. So every W₂ here stands
beside the **floor** (fresh clean images) and the value of the **mean** image repeated.

**Excess.** The papers' theorem bounds

$$ \mathrm{OT}(P_G, P_Y) − \mathrm{OT}(P_X, P_Y) $$

on held-out reports, in nats when the cost is −log f. Between batches of b points both terms are lower
than between laws, and a shrunken generator can undercut the truth: a *negative* excess shows that the
batch, not the law, is what was fitted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from privot.local.networks.cost import LikelihoodCost
from privot.randomizer import Release
from privot.transport import SinkhornSolver, entropic_cost
from studies.common.image_judge import pixel_distance
from studies.entropic.image_noise import IMAGE

NUM_POINTS = 1000


def w2_reference(clean: Tensor, held_out: Tensor) -> dict[str, float]:
    """W₂ to held-out images of fresh ones (`floor`) and of their mean repeated (`mean_image`)."""
    mean = clean.mean(dim=0, keepdim=True).expand(NUM_POINTS, -1)
    return {
        "floor": round(pixel_distance(clean, held_out, NUM_POINTS), 3),
        "mean_image": round(pixel_distance(mean, held_out, NUM_POINTS), 3),
    }


class Excess:
    """Entropic cost of learned images against reports, less that of fresh clean ones, in nats.

    Arguments:
        fresh: Clean images that the reports are not of.
        release: The reports.
        num_batches: Over how many disjoint batches of `NUM_POINTS` the mean is taken.
    """

    def __init__(self, fresh: Tensor, release: Release, num_batches: int = 1) -> None:
        self._cost = LikelihoodCost(release.randomizer)
        self._reports = self._cost.read(release, torch.device("cpu"))
        self._batches = [
            torch.arange(first, first + NUM_POINTS)
            for first in range(0, num_batches * NUM_POINTS, NUM_POINTS)
        ]
        self._truth = self._mean_cost(fresh)

    def of(self, images: Tensor) -> float:
        """The excess of learned images (n, d), as many as the batches need."""
        return round(self._mean_cost(images) - self._truth, 3)

    @torch.no_grad()
    def _mean_cost(self, images: Tensor) -> float:
        """Mean entropic cost in nats between batches of images and reports, in order."""
        solver = SinkhornSolver(tolerance=1e-3, max_iterations=500)
        values = []
        for rows in self._batches:
            costs = self._cost({IMAGE: images[rows]}, self._reports.rows(rows))
            values.append(float(entropic_cost(costs, solver=solver)[0]))
        return sum(values) / len(values)

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

from privot.transport import SinkhornSolver, entropic_cost
from studies.common.image_judge import pixel_distance
from studies.entropic.image_noise import ImageNoise

NUM_POINTS = 1000


def w2_reference(clean: Tensor, held_out: Tensor) -> dict[str, float]:
    """W₂ to held-out images of fresh ones (`floor`) and of their mean repeated (`mean_image`)."""
    mean = clean.mean(dim=0, keepdim=True).expand(NUM_POINTS, -1)
    return {
        "floor": round(pixel_distance(clean, held_out, NUM_POINTS), 3),
        "mean_image": round(pixel_distance(mean, held_out, NUM_POINTS), 3),
    }


@torch.no_grad()
def batch_cost(x: Tensor, y: Tensor, noise: ImageNoise, size: int, num_batches: int) -> float:
    """Mean entropic cost in nats between batches of images x and reports y, in order, constant kept."""
    solver = SinkhornSolver(tolerance=1e-3, max_iterations=500)
    values = []
    for start in range(0, size * num_batches, size):
        batch = slice(start, start + size)
        value, _ = entropic_cost(noise.cost(noise.into(x[batch]), y[batch]), solver=solver)
        values.append(float(value))
    return sum(values) / len(values)


class Excess:
    """Entropic cost of learned images against reports, less that of fresh clean ones, in nats.

    Arguments:
        fresh: Clean images that the reports are not of.
        reports: In the space of the noise.
        noise: Whose −log density is the cost.
        size: Points of each side of a batch.
        num_batches: Over how many disjoint batches the mean is taken.
    """

    def __init__(
        self,
        fresh: Tensor,
        reports: Tensor,
        noise: ImageNoise,
        size: int = NUM_POINTS,
        num_batches: int = 1,
    ) -> None:
        self.reports, self.noise, self.size, self.num_batches = reports, noise, size, num_batches
        self._truth = batch_cost(fresh, reports, noise, size, num_batches)

    def of(self, images: Tensor) -> float:
        """The excess of learned images (n, d), as many as the batches need."""
        found = batch_cost(images, self.reports, self.noise, self.size, self.num_batches)
        return round(found - self._truth, 3)

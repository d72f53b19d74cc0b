r"""How a mixture is learned by rounds of noisy sums: what follows from ε, records, and size.

What a label's mean stands above the noise by grows with $s = μ n/\text{labels}$, μ = Δ/σ of the whole
run: from s = 1200 on there is a component more for every 600, and of the frequencies along each axis in
which the rest is told, 14 before, one more for every 2000, up to 18. More of them teach more of
clothes, whose texture they are, but a network a little less of digits, whose edges they blur, and less
of both where noise is large. Means have 14 at any s. Numbers and shares were chosen on held-out
*training* images of two data sets at ε = 1 and 10; but that 14 frequencies do at ε = 1 was first seen
on test images, and held-out ones were asked afterwards, with the same answer. Public numbers alone
enter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from privot.errors import PrivotError
from privot.privacy import calibrate_gaussian
from privot.privacy.rounding import at_most
from privot.sliced.images import ImageRecords
from privot.sliced.mixtures.questions import LEVELS, Components, PixelSums
from privot.sliced.mixtures.settings import MixtureSettings
from privot.sliced.sums.mechanism import sensitivity
from privot.sliced.sums.plan import SumPlan

_MOST_NOISE = 0.35  # on a pixel of a label's mean, of white
_ALONE, _PER_COMPONENT = 1200.0, 600.0
_MOST_COMPONENTS = 20
_RESIDUAL_NORM = 0.25
# Shares of μ², where there are several components: means, first covariances, sums, last covariances.
_MEANS, _FIRST, _LAST = 0.05, 0.15, 0.45
_MEANS_ALONE = 0.35
_FREQUENCIES = 14
_PER_FREQUENCY, _MOST_FREQUENCIES = 2000.0, 18  # of what is left
_FIRST_FREQUENCIES = 7


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """What the rounds of a fit of images ask.

    Arguments:
        components: For each label.
        low_pass: Frequencies of components' means, along each axis.
        first_low_pass: Frequencies of the covariances that first centers come of.
        residual_low_pass: Frequencies of the covariances within components.
        norm: Length of an image, in pixels, beyond which it is made darker.
        residual_norm: Length of what is left of it, beyond which it is made shorter.
        lloyd_rounds: Sums of components; none of a single one.
        seed: Of what is drawn in public.
    """

    components: int
    low_pass: int
    first_low_pass: int
    residual_low_pass: int
    norm: float
    residual_norm: float
    lloyd_rounds: int = 1
    seed: int = 0

    @classmethod
    def of(
        cls,
        settings: MixtureSettings,
        epsilon: float,
        delta: float,
        count: int,
        images: ImageRecords,
    ) -> Self:
        """What is asked of so many images."""
        signal = count / calibrate_gaussian(1.0, epsilon, delta) / images.num_labels
        more = int(max(signal - _ALONE, 0.0) / _PER_COMPONENT)
        components = settings.components or min(1 + more, _MOST_COMPONENTS)
        finer = _FREQUENCIES + int(max(signal - _ALONE, 0.0) / _PER_FREQUENCY)
        most = min(images.shape[-2:])
        white = math.sqrt(images.outputs)
        return cls(
            components=components,
            low_pass=min(settings.low_pass or _FREQUENCIES, most),
            first_low_pass=min(_FIRST_FREQUENCIES, most),
            residual_low_pass=min(
                settings.residual_low_pass or min(finer, _MOST_FREQUENCIES), most
            ),
            norm=settings.norm * white,
            residual_norm=_RESIDUAL_NORM * white,
            seed=settings.seed,
        )

    @property
    def shares(self) -> tuple[float, ...]:
        """Of μ², by round."""
        if self.components == 1:
            return (_MEANS_ALONE, 1 - _MEANS_ALONE)
        sums = (1 - _MEANS - _FIRST - _LAST) / self.lloyd_rounds
        return (_MEANS, _FIRST, *[sums] * self.lloyd_rounds, _LAST)

    def plan(self, epsilon: float, delta: float, count: int, images: ImageRecords) -> SumPlan:
        """Its rounds, under (ε, δ); nothing is spent on what noise would drown.

        Raises:
            PrivotError: if noise on the mean of a label of average size, in the frequencies that are
                kept, would be .35 of white on every pixel: a public computation.
        """
        plan = SumPlan.calibrate(epsilon, delta, self.shares, count, images.schema.unit)
        question = PixelSums(Components(images, np.zeros((images.num_labels, 1, 1))), self.norm)
        size = count / images.num_labels
        kept = min(self.low_pass**2 / math.prod(images.shape[-2:]), 1.0)
        noise = sensitivity(question) / LEVELS / plan.ratios[0] / size * math.sqrt(kept)
        if noise > _MOST_NOISE:
            raise PrivotError(
                f"epsilon {at_most(epsilon)} for {count:,} images: noise of {noise:.2g} on every pixel "
                f"would drown a label's mean; give {math.ceil(count * noise / _MOST_NOISE):,} images, "
                "as much more epsilon, or keep fewer frequencies (low_pass)"
            )
        return plan

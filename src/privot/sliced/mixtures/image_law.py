r"""What images are drawn from: a label, one of its components, and Gaussian noise cut to [0, 1].

Of component k of label c the mean image is $m_k$, and the covariance within components of the label has
the diagonal $d$ in pixels. Where a component is bright or dark its pixels cannot vary: pixel i is given
the variance

$$ v_{ki} = q_{ki} \min\Bigl(\frac{d_i}{\sum_l π_l q_{li}}, .9\Bigr), \quad q_{ki} = m_{ki}(1−m_{ki}), $$

which keeps d in the mean over components. Drawn are pixels $\min(\max(a_{ki} + b_{ki} g_i, 0), 1)$ with
g a standard Gaussian that has the label's correlations, and $(a, b)$ those whose cut has mean m and
variance v (`privot.sliced.mixtures.clipped`). Noise of its own on every pixel stands for the frequencies
that were left out. A function of what was released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.sliced.images import ImageRecords
from privot.sliced.mixtures.clipped import clipped_to
from privot.sliced.records import Records
from privot.sliced.tensor_law import LabeledLaw

Floats = NDArray[np.float64]
_MOST = 0.9  # of the variance that a pixel of a mean can have
_LEAST = 1e-4
_TINY = 1e-12
DITHER = 0.075


@dataclass(frozen=True, eq=False)
class ImageMixture(LabeledLaw):
    """Mixtures of Gaussians that are cut to [0, 1], one for each label.

    Arguments:
        images: Their map.
        shares: Probability of each label.
        weights: Of each label's components (labels, K).
        locations: Pixels (labels, K, d) before they are cut.
        scales: Of the noise on them.
        roots: Of covariances within components (labels, p, p), in frequencies.
        spread: Their variances of pixels (labels, d).
        low_pass: How many frequencies along each axis these are.
    """

    kind: ClassVar[str] = "mixture"

    images: ImageRecords
    shares: Tensor
    weights: Tensor
    locations: Tensor
    scales: Tensor
    roots: Tensor
    spread: Tensor
    low_pass: int

    @classmethod
    def of(
        cls, images: ImageRecords, means: Floats, counts: Floats, low: ImageRecords, roots: Floats
    ) -> Self:
        """The law of means (labels, K, d), counts (labels, K) and roots in the frequencies `low`."""
        weights = counts / counts.sum(axis=1, keepdims=True)
        columns = torch.from_numpy(roots).mT.flatten(0, 1)
        factors = low.expand(columns).reshape(*roots.shape[:2], -1)
        spread = factors.square().sum(dim=1).clamp_min(_TINY)
        most = means * (1 - means)
        usual = np.maximum((weights[..., None] * most).sum(axis=1), _LEAST)
        variances = np.minimum((spread.numpy() / usual)[:, None] * most, _MOST * most)
        locations, scales = clipped_to(means, variances)
        labels = counts.sum(axis=1)
        found = {"shares": labels / labels.sum(), "weights": weights, "locations": locations,
                 "scales": scales, "roots": roots, "spread": spread.numpy()}  # fmt: skip
        tensors = {name: torch.from_numpy(part).float() for name, part in found.items()}
        return cls.of_tensors(images, {"low_pass": low.low_pass}, tensors)

    @cached_property
    def _low(self) -> ImageRecords:
        return ImageRecords(self.images.schema, low_pass=self.low_pass, degree=1)

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """See `LabeledLaw`."""
        drawn = torch.empty(len(labels), self.locations.shape[2])
        for label in range(len(self.shares)):
            own = torch.nonzero(labels == label)[:, 0]
            if not len(own):
                continue
            of = torch.multinomial(self.weights[label], len(own), replacement=True, generator=rng)
            noise = torch.randn(len(own), self.roots.shape[2], generator=rng)
            waves = self._low.expand(noise @ self.roots[label].T).flatten(1)
            within = waves / self.spread[label].sqrt()
            drawn[own] = self.locations[label][of] + self.scales[label][of] * within
        drawn += DITHER * torch.randn(drawn.shape, generator=rng)
        return drawn.clamp(0.0, 1.0).reshape(-1, *self.images.shape)

    def fields(self) -> dict[str, Any]:
        """See `LabeledLaw`."""
        return {"low_pass": self.low_pass}

    def tensors(self) -> dict[str, Tensor]:
        """See `LabeledLaw`."""
        names = ("shares", "weights", "locations", "scales", "roots", "spread")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_tensors(
        cls, records: Records, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Self:
        """See `LabeledLaw`."""
        assert isinstance(records, ImageRecords)
        return cls(records, **tensors, low_pass=fields["low_pass"])

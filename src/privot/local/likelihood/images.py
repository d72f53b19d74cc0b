r"""Images on the curator's side: a generator draws pixels, the cost is in the space of the noise.

The generator's features are N numbers, one a pixel whatever was noised, and pixels are their tanh.
Where cosine coefficients T x were noised (`privot.schema.domains.image`), the cost of pixels p and a
report y is that of T p and y; T is linear, so gradients pass. Frequencies that the mask left out are in
no report, and nothing could teach a network of free pixels to leave them alone: features are made smooth
first, $p = \tanh(T^⊤ T\, a)$. The tanh keeps pixels within their bounds and brings back such high
frequencies as sharp edges between black and white need.
"""

from __future__ import annotations

import torch
from torch import Tensor

from privot.local.likelihood.points import PointChannel
from privot.schema import ImageDomain
from privot.schema.domains.image import cosine_rows


class CosineMap:
    """The map T of a domain with a mask, on tensors.

    Arguments:
        domain: Whose shape and mask are meant.

    Examples:
        >>> smooth = CosineMap(ImageDomain((8, 8), kept=(1, 1))).smooth(torch.arange(64.0)[None])
        >>> [round(float(pixel), 3) for pixel in (smooth.min(), smooth.max())]
        [31.5, 31.5]
    """

    def __init__(self, domain: ImageDomain) -> None:
        assert domain.kept is not None
        self.shape = domain.shape
        height, width = domain.shape[:2]
        rows = (cosine_rows(height, domain.kept[0]), cosine_rows(width, domain.kept[1]))
        self.along, self.across = (torch.tensor(part, dtype=torch.float32) for part in rows)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Coefficients (n, d) of pixels (n, N)."""
        return self._coefficients(pixels).flatten(1)

    def smooth(self, pixels: Tensor) -> Tensor:
        """The nearest images (n, N) that have the kept frequencies only."""
        cube = self._coefficients(pixels)
        along, across = (part.to(pixels) for part in (self.along, self.across))
        return torch.einsum("mh,nmkc,kw->nhwc", along, cube, across).flatten(1)

    def _coefficients(self, pixels: Tensor) -> Tensor:
        cube = pixels.reshape(len(pixels), *self.shape[:2], -1)
        along, across = (part.to(pixels) for part in (self.along, self.across))
        return torch.einsum("mh,nhwc,kw->nmkc", along, cube, across)


class CosineChannel(PointChannel):
    """A channel of coefficients, whose outputs are pixels."""

    def __init__(self, value: PointChannel, domain: ImageDomain) -> None:
        self.value = value
        self.map = CosineMap(domain)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`."""
        return self.value.cost(self.map(output), reports)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""
        return self.value.simulate(self.map(output), rng)

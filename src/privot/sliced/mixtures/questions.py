r"""What rounds ask of labeled images: sums of pixels by component, and products of what is left.

**Sums.** The slot of an image is its label and, among that label's components, the one whose center is
nearest in low frequencies. Its vector are its pixels, cut to [0, 1] and rounded **down** to 1/1024, and
a constant c, which counts. Pixels have no sign, and so no two vectors point apart. An image that is
longer than the public norm ρ is made darker until it is as long; so $R^2 = ρ^2 + c^2$.

**Products.** The vector are low frequencies of the image less its component's center, cut to a public
length and rounded towards zero; the slot is the label. Moment 2: any two records' have a non-negative
inner product, whatever their signs (`privot.sliced.sums.mechanism`).

All is a function of one image, of public numbers and of centers that were released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.sliced.images import ImageRecords
from privot.sliced.sums.mechanism import Integers, Records

Floats = NDArray[np.float64]
LEVELS = 1024  # of a pixel
LENGTH = 4096  # integer length of a residual that is as long as may be
# The constant that counts, in norms: its noise, and what it costs the pixels, are then both small.
_COUNT = 0.3
_EPSILON = 1e-12


def nearest_component(centers: Floats, coordinates: Tensor, labels: Tensor) -> Integers:
    """The component (n,) whose center (labels, K, p) is nearest, among those of a row's label."""
    num_labels, count, _ = centers.shape
    flat = torch.from_numpy(centers).flatten(0, 1).to(coordinates)
    gaps = flat.square().sum(dim=1) / 2 - coordinates @ flat.T
    own = gaps.unflatten(1, (num_labels, count))[torch.arange(len(labels)), labels].argmin(dim=1)
    return (labels * count + own).numpy()


@dataclass(frozen=True, eq=False)
class Components:
    """To which component an image belongs: the nearest center of its label.

    Arguments:
        images: Coordinates in which distances are taken.
        centers: Of each label's components (labels, K, p), in these coordinates.
    """

    images: ImageRecords
    centers: Floats

    @property
    def count(self) -> int:
        """Of all labels together."""
        return int(np.prod(self.centers.shape[:2]))

    def nearest(self, coordinates: Tensor, labels: Tensor) -> Integers:
        """The component (n,) of images with coordinates (n, p)."""
        return nearest_component(self.centers, coordinates, labels)


@dataclass(frozen=True, eq=False)
class PixelSums:
    """Sums of pixels by component, and how many there are.

    Arguments:
        components: Of which.
        norm: Length ρ of an image beyond which it is made darker.
    """

    components: Components
    norm: float

    moment: ClassVar[Literal[1]] = 1
    non_negative: ClassVar[bool] = True

    @property
    def slots(self) -> int:
        """See `Question`."""
        return self.components.count

    @property
    def width(self) -> int:
        """See `Question`: the pixels, and the constant."""
        return self.components.images.outputs + 1

    @property
    def one(self) -> int:
        """The constant."""
        return int(_COUNT * self.norm * LEVELS)

    @property
    def radius(self) -> int:
        """See `Question`."""
        return int(np.ceil(np.hypot(self.norm * LEVELS, self.one)))

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Question`."""
        pixels, labels = map(torch.from_numpy, records)
        slots = self.components.nearest(self.components.images.prepare(pixels), labels)
        flat = pixels.clamp(0.0, 1.0).flatten(1).double()
        darker = (self.norm / flat.norm(dim=1, keepdim=True).clamp_min(_EPSILON)).clamp_max(1.0)
        vectors = torch.floor(flat * darker * LEVELS).long().numpy()
        ones = np.full((len(vectors), 1), self.one)
        return slots, np.concatenate([vectors, ones], axis=1)


@dataclass(frozen=True, eq=False)
class ResidualProducts:
    """Products of low frequencies of images less their component's center, by label.

    Arguments:
        components: Whose centers are taken off.
        means: The centers (labels·K, p) in `images`' coordinates.
        images: The low frequencies.
        norm: Length of a residual beyond which it is made shorter.
    """

    components: Components
    means: Floats
    images: ImageRecords
    norm: float

    moment: ClassVar[Literal[2]] = 2
    non_negative: ClassVar[bool] = True
    radius: ClassVar[int] = LENGTH

    @property
    def slots(self) -> int:
        """See `Question`."""
        return self.images.num_labels

    @property
    def width(self) -> int:
        """See `Question`."""
        return self.images.num_coordinates

    @property
    def unit(self) -> float:
        """What one integer is."""
        return self.norm / LENGTH

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Question`."""
        pixels, labels = map(torch.from_numpy, records)
        own = self.components.nearest(self.components.images.prepare(pixels), labels)
        residuals = self.images.prepare(pixels).double() - torch.from_numpy(self.means[own])
        shorter = (self.norm / residuals.norm(dim=1, keepdim=True).clamp_min(_EPSILON)).clamp_max(1)
        vectors = torch.trunc(residuals * shorter / self.unit).long().numpy()
        return labels.numpy(), vectors

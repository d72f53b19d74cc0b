r"""Products of lifted vectors by component: count, mean and covariance of each, in one round.

The slot of a row is its label and, among that label's components, the one whose center c is nearest. Its
vector is $z = (r, a)$, r = x − c cut to the public length ρ, with the anchor a = .7 ρ, rounded towards
zero. The sum of $z z^\top$ holds the number of rows times a², the sum of r times a, and the sum of
$r r^\top$: of one question, of moment 2, whose vectors never point apart whatever their signs
(`privot.sliced.sums.mechanism`), so that Δ is √2 and not 2 times the longest.

**Privacy review.** Adjacency `replace_one`; Δ is the mechanism's, by the radius, which is checked there.
All is a function of one row, of public numbers and of centers that were released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from privot.sliced.mixtures.questions import LENGTH, nearest_component
from privot.sliced.sums.mechanism import Integers, NoisySums, Records

Floats = NDArray[np.float64]
_ANCHOR = 0.7  # of the length of a residual
_EPSILON = 1e-12


@dataclass(frozen=True, eq=False)
class Moments:
    """What a round tells of components, with the standard deviations of its errors.

    Arguments:
        counts: Rows of each component (labels, K), at least 1.
        sums: Of residuals (labels, K, d), with errors `of_sums`.
        products: Sums of r rᵀ (labels, K, d, d), with errors `of_products` on the diagonal.
        of_sums: See `sums`.
        of_products: See `products`; off the diagonal they are less by √2.
    """

    counts: Floats
    sums: Floats
    products: Floats
    of_sums: float
    of_products: float


@dataclass(frozen=True, eq=False)
class LiftedProducts:
    """The question: count, sum and products of each component's residuals.

    Arguments:
        centers: Of each label's components (labels, K, d).
        norm: Length ρ of a residual beyond which it is made shorter.
    """

    centers: Floats
    norm: float

    moment: ClassVar[Literal[2]] = 2
    non_negative: ClassVar[bool] = True
    radius: ClassVar[int] = LENGTH

    @property
    def slots(self) -> int:
        """See `Question`."""
        return int(np.prod(self.centers.shape[:2]))

    @property
    def width(self) -> int:
        """See `Question`: the coordinates, and the anchor."""
        return int(self.centers.shape[2]) + 1

    @property
    def unit(self) -> float:
        """What one integer is."""
        return self.norm * math.hypot(1.0, _ANCHOR) / LENGTH

    @property
    def anchor(self) -> int:
        """The constant coordinate."""
        return int(_ANCHOR * self.norm / self.unit)

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Question`."""
        points, labels = map(torch.from_numpy, records)
        own = nearest_component(self.centers, points, labels)
        residuals = points - torch.from_numpy(self.centers).flatten(0, 1)[own]
        shorter = (self.norm / residuals.norm(dim=1, keepdim=True).clamp_min(_EPSILON)).clamp_max(1)
        vectors = torch.trunc(residuals * shorter / self.unit).long().numpy()
        anchors = np.full((len(vectors), 1), self.anchor)
        return own, np.concatenate([vectors, anchors], axis=1)

    def moments(self, released: NoisySums) -> Moments:
        """What was released, in the units of points."""
        shape = self.centers.shape
        noisy = released.sums.reshape(*shape[:2], self.width, self.width)
        return Moments(
            counts=np.maximum(noisy[..., -1, -1] / self.anchor**2, 1.0),
            sums=noisy[..., :-1, -1] / self.anchor * self.unit,
            products=noisy[..., :-1, :-1] * self.unit**2,
            of_sums=released.stddev / math.sqrt(2.0) / self.anchor * self.unit,
            of_products=released.stddev * self.unit**2,
        )

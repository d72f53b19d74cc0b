r"""What rounds ask of unlabeled records: sums and products, by the class they look like.

The slot of a record is the class that a classifier, learned from the public source and earlier releases,
gives it: a function of the record, right or wrong.

**Sums.** The vector of x is x, cut to a public length ρ and rounded **towards zero** to ρ/16384, and a
constant, which counts. Where the public source has no negative number, those of a record count as
zeros: then no two vectors point apart.

**Products.** The vector are coordinates of x less its class's mean (as released), along public
directions, cut to a public length and rounded towards zero. Moment 2: no two products point apart,
whatever the signs (`privot.sliced.sums.mechanism`).

**Privacy review.** Both are functions of one record, of public numbers, and of what was released.
Lengths come of the source alone. A record that the classifier cannot tell is in the slot of some class
all the same. Adjacency and Δ: `privot.sliced.sums.mechanism`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.sliced.adaptation.classifier import Classifier
from privot.sliced.sums.mechanism import Integers, Records

Floats = NDArray[np.float64]
LENGTH = 16384  # integer length of a record that is as long as may be
PRODUCT_LENGTH = 4096  # of a residual: products are of the order of its square
# The constant that counts, in lengths: its noise, and what it costs the rest, are then both small.
_COUNT = 0.3
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Sums of records by class, and how many there are.

    Arguments:
        classifier: Which tells the class; frozen.
        dim: Numbers p of a record.
        norm: Length ρ beyond which a record is made shorter.
        non_negative: Whether negative numbers count as zeros.
    """

    classifier: Classifier
    dim: int
    norm: float
    non_negative: bool

    moment: ClassVar[Literal[1]] = 1
    one: ClassVar[int] = int(_COUNT * LENGTH)
    radius: ClassVar[int] = int(np.ceil(np.hypot(LENGTH, one)))

    @property
    def slots(self) -> int:
        """See `Question`."""
        return self.classifier.num_classes

    @property
    def width(self) -> int:
        """See `Question`: the record, and the constant."""
        return self.dim + 1

    @property
    def unit(self) -> float:
        """What one integer is."""
        return self.norm / LENGTH

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Question`."""
        x = torch.from_numpy(records[0])
        flat = x.flatten(1).double()
        flat = flat.clamp_min(0.0) if self.non_negative else flat
        vectors = _whole(flat, self.norm, self.unit)
        ones = np.full((len(vectors), 1), self.one)
        return self.classifier.classes(x).numpy(), np.concatenate([vectors, ones], axis=1)


@dataclass(frozen=True, eq=False)
class ClassProducts:
    """Products of coordinates of records less their class's mean, by class.

    Arguments:
        classifier: Which tells the class; frozen.
        means: Of the classes (classes, p).
        basis: Public directions as columns (p, k), orthonormal.
        norm: Length of a residual beyond which it is made shorter.
    """

    classifier: Classifier
    means: Floats
    basis: Floats
    norm: float

    moment: ClassVar[Literal[2]] = 2
    non_negative: ClassVar[bool] = True
    radius: ClassVar[int] = PRODUCT_LENGTH

    @property
    def slots(self) -> int:
        """See `Question`."""
        return self.classifier.num_classes

    @property
    def width(self) -> int:
        """See `Question`."""
        return self.basis.shape[1]

    @property
    def unit(self) -> float:
        """What one integer is."""
        return self.norm / PRODUCT_LENGTH

    def answer(self, records: Records) -> tuple[Integers, Integers]:
        """See `Question`."""
        x = torch.from_numpy(records[0])
        classes = self.classifier.classes(x).numpy()
        residuals = x.flatten(1).double() - torch.from_numpy(self.means[classes])
        coordinates = residuals @ torch.from_numpy(self.basis)
        return classes, _whole(coordinates, self.norm, self.unit)


def _whole(values: Tensor, norm: float, unit: float) -> Integers:
    """Vectors (n, w) no longer than `norm`, in whole units, towards zero."""
    shorter = (norm / values.norm(dim=1, keepdim=True).clamp_min(_TINY)).clamp_max(1.0)
    return np.asarray(torch.trunc(values * shorter / unit).long().numpy())

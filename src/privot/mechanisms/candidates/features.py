r"""Features: points of a sphere, with labels, as unit vectors whose means a curator wants.

A point z of $ℝ^q$, $‖z‖ = 1$, with a label c of C becomes

$$ φ(z, c) = \big( \sqrt{a_0}\, e_c, \; \sqrt{a_1}\, e_c ⊗ z \big), \qquad a_0 + a_1 = 1, $$

of length 1, whose mean over people holds the labels' shares and the mean of z of every label. Where
points may be missing, a number of their own has the length $\sqrt{a_1}$ instead, and z is 0. With one
label, the first part is left out, and $a_0 = 0$. All of it is public.

Second moments have no part of their own: reports tell about them, as about all others, by a likelihood
that is far from linear (`privot.local.gaussians.likelihood`), and about first moments the more, the more
of a record's length is theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.schema import Array

LABEL_WEIGHT = 0.02


@dataclass(frozen=True)
class Moments:
    """Means over people; of what is 0 in a record whose point is missing, or has another label, too.

    Arguments:
        shares: Of the labels (C,); 1 of a single one.
        first: Of z where the label is c (C, q), not divided by the shares.
        missing: Of missing points.
    """

    shares: Array
    first: Array
    missing: float


@dataclass(frozen=True)
class Features:
    """The map from points and labels to unit vectors.

    Arguments:
        points: q, numbers of a point.
        labels: C; 1 without labels.
        label_weight: a₀; 0 without labels.
        nullable: Whether points may be missing.

    Examples:
        >>> features = Features.of(points=2, labels=3)
        >>> vectors = features.encode(np.array([[0.6, 0.8]]), np.array([2]))
        >>> vectors.shape, round(float((vectors**2).sum()), 6)
        ((1, 9), 1.0)
        >>> features.decode(vectors[0]).shares.round(6).tolist()
        [0.0, 0.0, 1.0]
    """

    points: int
    labels: int
    label_weight: float
    nullable: bool = False

    def __post_init__(self) -> None:
        whole = [self.points, self.labels]
        if not all(type(number) is int and number >= 1 for number in whole):
            raise PrivotError(f"points and labels are {whole}: give integers from 1")
        most = 0.0 if self.labels == 1 else 0.5
        if not 0 <= self.label_weight <= most or (self.label_weight == 0) != (self.labels == 1):
            raise PrivotError(
                f"label_weight is {self.label_weight} of {self.labels} labels: give a number above "
                "0, up to .5, and 0 without labels"
            )

    @classmethod
    def of(cls, points: int, labels: int = 1, nullable: bool = False) -> Features:
        """Those of least error."""
        return cls(points, labels, 0.0 if labels == 1 else LABEL_WEIGHT, nullable)

    @cached_property
    def _places(self) -> dict[str, slice]:
        """Where each part of a vector is."""
        sizes = {
            "labels": self.labels if self.labels > 1 else 0,
            "points": self.labels * self.points,
            "missing": int(self.nullable),
        }
        ends = np.cumsum([0, *sizes.values()]).tolist()
        return {name: slice(*ends[i : i + 2]) for i, name in enumerate(sizes)}

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return int(self._places["missing"].stop)

    def encode(
        self, points: Array, labels: NDArray[np.integer] | None = None
    ) -> NDArray[np.float32]:
        """Unit vectors of points (n, q) of the sphere, rows of NaN being missing, and labels (n,)."""
        absent = np.asarray(np.isnan(points).any(axis=1))
        out = np.zeros((len(points), self.dimension), np.float32)
        rows, code = np.arange(len(points)), labels if labels is not None else 0
        one, linear = math.sqrt(self.label_weight), math.sqrt(1 - self.label_weight)
        parts = {name: out[:, place] for name, place in self._places.items()}
        if self.labels > 1:
            parts["labels"][rows, code] = one
        by_label = parts["points"].reshape(len(points), self.labels, self.points)
        by_label[rows, code] = linear * np.where(absent[:, None], 0.0, points)
        if self.nullable:
            parts["missing"][:, 0] = linear * absent
        return out

    def parts(self, vectors: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Labels (n, C), points (n, C, q) and missing (n,) of vectors (n, D); zeros of what is not."""
        count = len(vectors)
        parts = {name: vectors[:, place] for name, place in self._places.items()}
        nothing = np.zeros((count, 1), vectors.dtype)
        return (
            parts["labels"] if self.labels > 1 else nothing,
            parts["points"].reshape(count, self.labels, self.points),
            (parts["missing"] if self.nullable else nothing)[:, 0],
        )

    def decode(self, mean: Array) -> Moments:
        """The moments that a mean of vectors (D,) holds."""
        labels, points, missing = self.parts(np.asarray(mean)[None])
        linear = math.sqrt(1 - self.label_weight)
        shares = np.ones(1) if self.labels == 1 else labels[0] / math.sqrt(self.label_weight)
        return Moments(shares, points[0] / linear, float(missing[0]) / linear)

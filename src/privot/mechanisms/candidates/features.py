r"""Features: points, with labels, as unit vectors whose means are the moments that a curator wants.

A point z of $ℝ^q$, $‖z‖ ≤ 1$, with a label c of C becomes

$$ φ(z, c) = \big( \sqrt{a_0}\, e_c, \; \sqrt{a_1}\, e_c ⊗ z, \; \sqrt{a_2}\, \mathrm{sym}(z z^⊤), \; s
\big), \qquad s ≥ 0, \; ‖φ‖ = 1 , $$

of which the mean over people holds the labels' shares, the mean of z of every label, and the second
moments of z. $\mathrm{sym}$ lists each pair once, times √2, so that its length is $‖z‖^2$; of
coordinates beyond the first p, the `paired`, it holds the squares alone (then it is shorter, and s
longer). The slack s makes up for what a short z leaves; where points may be missing, a number of their
own has all of it instead, and z = 0. With one label, the first part is left out.

The weights a share one report's precision among the parts, and add up to 1. All of it is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.schema import Array

# Of second moments of all pairs: more dimensions than this are for the squares alone.
MOST_FEATURES = 2**14


@dataclass(frozen=True)
class Moments:
    """Means over people; of what is 0 in a record whose point is missing, or has another label, too.

    Arguments:
        shares: Of the labels (C,); 1 of a single one.
        first: Of z where the label is c (C, q), not divided by the shares.
        second: Of $z z^⊤$, of the paired coordinates (p, p).
        squares: Of the squares of all others (q − p,).
        slack: Of s.
        missing: Of missing points.
    """

    shares: Array
    first: Array
    second: Array
    squares: Array
    slack: float
    missing: float


@dataclass(frozen=True)
class Features:
    """The map from points and labels to unit vectors.

    Arguments:
        points: q, numbers of a point.
        paired: p, how many of them, the first, are multiplied by one another.
        labels: C; 1 without labels.
        weights: a, of the labels, of first and of second moments; they add up to 1.
        nullable: Whether points may be missing.

    Examples:
        >>> features = Features.of(points=2, labels=3)
        >>> vectors = features.encode(np.array([[0.6, 0.8]]), np.array([2]))
        >>> vectors.shape, round(float((vectors**2).sum()), 6)
        ((1, 13), 1.0)
        >>> features.decode(vectors[0]).shares.round(6).tolist()
        [0.0, 0.0, 1.0]
    """

    points: int
    paired: int
    labels: int
    weights: tuple[float, float, float]
    nullable: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(self.weights))
        whole = [self.points, self.paired, self.labels]
        known = all(type(number) is int for number in whole)
        if not known or not 0 <= self.paired <= self.points or min(self.points, self.labels) < 1:
            raise PrivotError(
                f"points, paired and labels are {whole}: give 0 ≤ p ≤ q ≥ 1 and C ≥ 1"
            )
        if len(self.weights) != 3 or not all(0 <= a <= 1 for a in self.weights):
            raise PrivotError(f"weights are {self.weights}: give three from 0 to 1")
        if abs(math.fsum(self.weights) - 1) > 1e-9 or (self.labels == 1) != (self.weights[0] == 0):
            raise PrivotError(
                f"weights are {self.weights} of {self.labels} labels: give three that add up to 1, the "
                "first being 0 without labels"
            )

    @classmethod
    def of(cls, points: int, labels: int = 1, nullable: bool = False) -> Features:
        """As many pairs as fit."""
        weights = (0.0, 0.5, 0.5) if labels == 1 else (0.02, 0.49, 0.49)
        left = MOST_FEATURES - labels * (points + 1) - 2
        paired = points if points * (points + 1) // 2 <= left else 0
        return cls(points, paired, labels, weights, nullable)

    @cached_property
    def _parts(self) -> dict[str, slice]:
        """Where each part of a vector is."""
        pairs = self.paired * (self.paired + 1) // 2
        sizes = {
            "shares": self.labels if self.labels > 1 else 0,
            "first": self.labels * self.points,
            "pairs": pairs,
            "squares": self.points - self.paired,
            "slack": 1,
            "missing": int(self.nullable),
        }
        ends = np.cumsum([0, *sizes.values()]).tolist()
        return {name: slice(*ends[i : i + 2]) for i, name in enumerate(sizes)}

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return int(self._parts["missing"].stop)

    @cached_property
    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """First and second coordinate of every pair, and what their product is multiplied by."""
        first, second = np.triu_indices(self.paired)
        return first, second, np.where(first == second, 1.0, math.sqrt(2))

    def encode(
        self, points: Array, labels: NDArray[np.integer] | None = None
    ) -> NDArray[np.float32]:
        """Unit vectors of points (n, q) in the unit ball, rows of NaN being missing, and labels (n,)."""
        absent = np.asarray(np.isnan(points).any(axis=1))
        z = np.where(absent[:, None], 0.0, points)
        out = np.zeros((len(z), self.dimension), np.float32)
        rows, code = np.arange(len(z)), np.zeros(len(z), np.int64) if labels is None else labels
        one, linear, square = (math.sqrt(weight) for weight in self.weights)
        parts = {name: out[:, part] for name, part in self._parts.items()}
        if self.labels > 1:
            parts["shares"][rows, code] = one
        parts["first"].reshape(len(z), self.labels, self.points)[rows, code] = linear * z
        first, second, factor = self._pairs
        parts["pairs"][:] = z[:, first] * z[:, second] * (square * factor)
        parts["squares"][:] = square * z[:, self.paired :] ** 2
        left = np.sqrt(np.maximum(0.0, 1.0 - (out.astype(np.float64) ** 2).sum(axis=1)))
        parts["slack"][:, 0] = np.where(absent & self.nullable, 0.0, left)
        if self.nullable:
            parts["missing"][:, 0] = np.where(absent, left, 0.0)
        return out

    def decode(self, mean: Array) -> Moments:
        """The moments that a mean of vectors (dimension,) holds."""
        parts = {name: np.asarray(mean)[part] for name, part in self._parts.items()}
        one, linear, square = (math.sqrt(weight) or math.inf for weight in self.weights)
        first, second, factor = self._pairs
        matrix = np.zeros((self.paired, self.paired))
        matrix[first, second] = matrix[second, first] = parts["pairs"] / (square * factor)
        unlabeled = math.sqrt(1.0 - self.weights[0])
        return Moments(
            shares=parts["shares"] / one if self.labels > 1 else np.ones(1),
            first=parts["first"].reshape(self.labels, self.points) / linear,
            second=matrix,
            squares=parts["squares"] / square,
            slack=float(parts["slack"][0]),
            missing=float(parts["missing"].sum()) / unlabeled,
        )

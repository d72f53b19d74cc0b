r"""What moves from wave to wave: shares of pieces of a column, and what a wave's reports say of them.

A column's law at time t is $p_t = \sum_b θ_{tb} h_b$, of **pieces** $h_b$ that stay and shares θ that
move. Of categories, pieces are the values; of numbers and places, bumps of the law that all waves
together teach, so that within a bump people lie as they always do.

A wave's slope and information by θ are turned to coordinates $θ = \bar θ + B u$ in which the prior
covariance of shares, $\mathrm{diag}(\bar θ) − \bar θ \bar θ^⊤$ (logits that move alike), is the identity
and the information of all waves is diagonal. What correlation a single wave has left there is dropped
from its precision; its slope is exact, so where paths end up, slopes of all waves and of the prior
cancel.

Privacy: functions of reports, hence post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from privot.local.waves.paths import Paths
from privot.schema import Array

_LEAST = 1e-9  # of shares


class Pieces(NamedTuple):
    """Of one column.

    Arguments:
        law: Probabilities of values in each piece (values, pieces).
        shares: Of the pieces in all waves together (pieces,).
    """

    law: Array
    shares: Array


class Told(NamedTuple):
    """What a wave says of one column's shares, around those that it was asked at."""

    slope: Array  # (pieces,)
    information: Array  # (pieces, pieces)


@dataclass(frozen=True, eq=False)
class Moving:
    """One column's shares, in coordinates that move apart.

    Arguments:
        shares: θ̄ of the pieces (pieces,).
        basis: B (pieces, K).
    """

    shares: Array
    basis: Array

    @classmethod
    def of(cls, shares: Array, information: Array) -> Self:
        """With the basis in which the prior is round and this information diagonal.

        Examples:
            >>> one = Moving.of(np.array([0.5, 0.5]), np.diag([4.0, 4.0]))
            >>> abs(one.basis).round(2).tolist()
            [[0.5], [0.5]]
        """
        shares = np.maximum(shares, _LEAST) / np.maximum(shares, _LEAST).sum()
        values, vectors = np.linalg.eigh(np.diag(shares) - np.outer(shares, shares))
        kept = values > 1e-10 * values.max()
        root = vectors[:, kept] * np.sqrt(values[kept])
        _, turn = np.linalg.eigh(root.T @ information @ root)
        return cls(shares, root @ turn)

    def at(self, path: Array) -> Array:
        """Shares θ (pieces,) where u is `path`; none below 0."""
        found = np.maximum(self.shares + self.basis @ path, _LEAST)
        return np.asarray(found / found.sum())

    def turned(self, told: Told, path: Array) -> tuple[Array, Array]:
        """What was told around u = `path`, as h and D (K,)."""
        curved = told.information @ self.basis
        precision = np.maximum((self.basis * curved).sum(axis=0), 0.0)
        return self.basis.T @ told.slope + precision * path, precision

    def path_to(self, shares: Array) -> Array:
        """The coordinates u (K,) of shares (pieces,)."""
        return np.asarray(np.linalg.lstsq(self.basis, shares - self.shares, rcond=None)[0])


@dataclass(frozen=True, eq=False)
class Course:
    """One column's coordinates over the waves.

    Arguments:
        moving: What the coordinates are.
        times: Of the waves (T,).
        slopes: h (T, K).
        precisions: D (T, K).
    """

    moving: Moving
    times: Array
    slopes: Array
    precisions: Array

    @classmethod
    def of(
        cls, moving: Moving, times: Array, told: Sequence[Told], around: Sequence[Array] | Array
    ) -> Self:
        """Of what each wave told around paths u (T, K)."""
        turned = [moving.turned(each, path) for each, path in zip(told, around, strict=True)]
        slopes, precisions = (np.array(each) for each in zip(*turned, strict=True))
        return cls(moving, times, slopes, precisions)

    @cached_property
    def paths(self) -> Paths:
        """Of the coordinates."""
        return Paths(self.times, self.slopes, self.precisions)

    def with_wave(self, time: float, told: Told, around: Array) -> Self:
        """One wave later."""
        slope, precision = self.moving.turned(told, around)
        return type(self)(
            self.moving,
            np.append(self.times, time),
            np.vstack([self.slopes, slope]),
            np.vstack([self.precisions, precision]),
        )


def basis_of(shares: Array, told: Sequence[Told]) -> Moving:
    """Coordinates in which what all waves told is diagonal."""
    return Moving.of(shares, np.sum([each.information for each in told], axis=0))


class Followed(NamedTuple):
    """A ratio of sums over pieces, at every wave: a share, or a mean.

    Arguments:
        course: Of the pieces.
        part: What each piece counts above, at every wave (T, pieces).
        whole: And below.
    """

    course: Course
    part: Array
    whole: Array

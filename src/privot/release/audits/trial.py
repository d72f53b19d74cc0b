"""A trial: what an audit asks of one part of a report, whatever the part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.privacy import ApproximateDP, PureDP
from privot.schema.domains.domain import Array

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Read:
    """One part's reports of n people: cells (n, m) of their law, who reported (n,), and what else.

    Arguments:
        low, high: Cells of (0, 1), whose uniform points are uniform if the law is right.
        present: Who reported this part.
        keys: Equal where reports are.
        impossible: How many reports no record can have.
    """

    low: Array
    high: Array
    present: Mask
    keys: NDArray[np.uint64]
    impossible: int = 0

    @property
    def bits(self) -> Array:
        """What each report tells, at least."""
        told = -np.log2(np.clip(self.high - self.low, 2.0**-40, 1.0)).sum(axis=1)
        return np.where(self.present, told, 0.0)

    def uniforms(self, rng: np.random.Generator) -> Array:
        """A uniform point of every cell."""
        return (self.low + rng.random(self.low.shape) * (self.high - self.low)) % 1.0


class Trial(ABC):
    """One part of a report: records 0 … num_records−1 to try, and pairs of them to tell apart.

    Reports of a `noisy` part are points of a grid, whose cells tell their exact probabilities.
    """

    name: str
    kind: str
    num_records: int
    noisy: bool = False
    pairs: tuple[tuple[int, int], ...] = ()
    work: int = 0  # numbers that a report costs to draw, beyond those that it is of

    def raw(self, who: Indices, rng: np.random.Generator) -> dict[str, pa.Array]:
        """Table columns with the raw values of records `who` (n,)."""
        return {}

    @abstractmethod
    def read(self, table: pa.Table, who: Indices, rng: np.random.Generator) -> Read:
        """The reports of records `who` in a release's table, which can be read."""

    def guarantee(self) -> PureDP | ApproximateDP:
        """What this part promises by itself: nothing is told, by default."""
        return PureDP(0.0)

    def gaussian_mu(self) -> float | None:
        """Its μ, where the promise is not pure."""
        return None

    def log_ratio(self, table: pa.Table, first: int, second: int) -> Array:
        """Log-likelihood ratios (n,) of the reports for two records; 0 where not reported."""
        raise NotImplementedError

r"""The channel of a candidates report, smooth and with few numbers.

Let y be the reported candidate times √D, so that its numbers have variance 1, and φ the record's
features, $‖φ‖ = 1$. Given nothing else about the seed, the density of y against that of all candidates
is a function of $u = ⟨φ, y⟩$ alone (`privot.mechanisms.candidates.closest`), a step from b to a that is
smooth since the other candidates are random:

$$ f(y | φ) = b + (a − b) \, Φ\Big( \frac{u − t}{τ} \Big) , $$

t and τ being the mean and the standard deviation of the random score that a candidate has to beat. Where
φ is Gaussian, so is u, and the mean of f is of the same form: the wider u, the wider the step.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Self

import numpy as np
import scipy

from privot.mechanisms.candidates.closest import ClosestCandidates
from privot.schema import Array

_GRID = np.linspace(-8.0, 8.0, 4001)


@dataclass(frozen=True)
class SmoothChannel:
    """The density of reports, against that of candidates.

    Arguments:
        inside: a.
        outside: b.
        threshold: t.
        width: τ.
        label_weight: a₀, the share of a record's length that is its label's.

    Examples:
        >>> channel = SmoothChannel.of(ClosestCandidates.for_dimension(500, epsilon=5.0), 0.02)
        >>> round(channel.inside), round(channel.outside, 2), round(channel.threshold, 1)
        (26, 0.18, 1.9)
    """

    inside: float
    outside: float
    threshold: float
    width: float
    label_weight: float

    @classmethod
    def of(cls, mechanism: ClosestCandidates, label_weight: float) -> Self:
        """That of a mechanism."""
        size = mechanism.codebook.dimension
        inside, outside = (p * mechanism.codebook.num_candidates for p in mechanism.probabilities)
        ratio = np.exp(mechanism.log_likelihood(_GRID / np.sqrt(size)))
        steps = np.diff((ratio - outside) / (inside - outside))
        places = (_GRID[1:] + _GRID[:-1]) / 2
        threshold = float(steps @ places / steps.sum())
        width = float(np.sqrt(steps @ (places - threshold) ** 2 / steps.sum()))
        return cls(inside, outside, threshold, width, label_weight)

    def mass(self, squared_lengths: Array) -> Array:
        """Z: the mean density over all candidates, of points whose squared lengths are not all 1."""
        variance = self.label_weight + (1 - self.label_weight) * np.asarray(squared_lengths)
        below = -self.threshold / np.sqrt(variance + self.width**2)
        return np.asarray(self.outside + (self.inside - self.outside) * scipy.special.ndtr(below))

    def to_dict(self) -> dict[str, float]:
        """Plain values."""
        return asdict(self)

r"""Randomness for draws that leave: from the operating system's entropy, in NumPy's words.

A reference's sampler takes "a generator" and asks it for uniforms, normals and integers, as it would
ask `numpy.random.Generator`. While a model is fitted that may well be NumPy's own, seeded: what is
fitted stays with the curator, and the guarantee holds whatever was fitted. For a draw that is
published it is `SecureGenerator`, whose numbers come from
[`random_words`][privot.mechanisms.samplers.entropy.random_words]: with a seed, a draw would be a
function of the data.

Uniforms are $(m + ½) 2^{−53}$, $m$ an integer of 53 bits, hence never 0 or 1. A normal is $Φ^{−1}$ of
a magnitude of 63 bits and a sign of its own, so that both tails are equally fine and reach 9.2
standard deviations. These floats are not exactly normal, and they need not be: the law of proposals
is the same whatever the data is (`privot.integral.densities.density`).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privot.mechanisms import random_words

Floats = NDArray[np.float64]
Size = int | tuple[int, ...]


class Generator(Protocol):
    """What a sampler may ask for: a part of `numpy.random.Generator`."""

    def random(self, size: Size, /) -> Floats:
        """Uniform numbers on [0, 1)."""

    def standard_normal(self, size: Size, /) -> Floats:
        """Standard normal numbers."""

    def integers(self, low: int, high: int, size: Size, /) -> NDArray[np.int64]:
        """Uniform integers low … high − 1."""


class SecureGenerator:
    """Uniforms, normals and integers from OS entropy: no seed, no state, nothing to repeat.

    Examples:
        >>> SecureGenerator().random((2, 3)).shape
        (2, 3)
    """

    def random(self, size: Size, /) -> Floats:
        """Uniform numbers inside (0, 1), on a grid of 2^−53."""
        words = random_words(_count(size)) >> np.uint64(11)
        uniform: Floats = (words.astype(np.float64) + 0.5) * 2.0**-53
        # The largest word rounds to 1.
        return np.minimum(uniform, 1.0 - 2.0**-53).reshape(size)

    def standard_normal(self, size: Size, /) -> Floats:
        """Standard normal numbers, both tails alike."""
        words = random_words(_count(size))
        magnitude = ndtri(((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64)
        sign = np.where(words & np.uint64(1), 1.0, -1.0)
        return np.asarray(sign * magnitude, np.float64).reshape(size)

    def integers(self, low: int, high: int, size: Size, /) -> NDArray[np.int64]:
        """Uniform integers low … high − 1, exactly, by rejecting the words left over."""
        span, count = high - low, _count(size)
        limit = np.uint64(2**64 - 1 - 2**64 % span)
        kept = np.empty(0, np.uint64)
        while len(kept) < count:
            words = random_words(count - len(kept) + 8)
            kept = np.concatenate([kept, words[words <= limit]])
        return (low + (kept[:count] % np.uint64(span)).astype(np.int64)).reshape(size)


def _count(size: Size) -> int:
    return size if isinstance(size, int) else math.prod(size)

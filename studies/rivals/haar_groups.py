r"""Numbers by Haar coefficients, each level from people of its own, low orders first.

A density on [−1, 1] has at level $j = 0 … J − 1$ the Haar coefficients $m_{jk} = P(\text{left half of
interval } k) − P(\text{right half})$, k < 2^j. A person of the group of level j reports the half of an
interval that the number is in, one of $2^{j+1}$ values: by randomized response if they are at most
$3 e^ε + 2$, else by optimized unary encoding. Differences of the estimated shares are the coefficients;
from the root down, a share is split by its coefficient, limited so that both parts are nonnegative.

**Groups.** Level j has a share of people proportional to $ρ^j$: low orders, by which mass is moved far,
are estimated better.

Reconstructed from the abstract and from reviews, not from the paper's text: an expansion in Haar
wavelets whose coefficients are estimated under LDP, with low orders first. Levels J and ρ are therefore
chosen by the truth in the recipes, which is an upper bound on any rule of that kind.

References:
    Zhao, Zhang, Sun, Li, Zhang, Wang, Liu, *Consistent estimation of numerical distributions under local
    differential privacy by wavelet expansion* (2025).
"""

from __future__ import annotations

import math

import numpy as np

from privot.schema.domains import Array
from studies.rivals.grids_of_ranges import unary_shares


def haar_shares(
    numbers: Array, epsilon: float, levels: int, ratio: float, rng: np.random.Generator
) -> Array:
    """Shares (2^levels,) of equal intervals between −1 and 1, of numbers (n,)."""
    sizes = ratio ** np.arange(levels)
    group = rng.choice(levels, len(numbers), p=sizes / sizes.sum())
    shares = np.ones(1)
    for level in range(levels):
        halves = 2 ** (level + 1)
        cells = np.clip(((numbers[group == level] + 1) * halves / 2).astype(int), 0, halves - 1)
        counts = np.bincount(cells, minlength=halves).astype(float)
        found = (
            _response_shares(counts, epsilon, rng)
            if halves <= 3 * math.exp(epsilon) + 2
            else unary_shares(counts, epsilon, rng)
        )
        difference = np.clip(found[::2] - found[1::2], -shares, shares)
        shares = np.stack([shares + difference, shares - difference], axis=1).ravel() / 2
    return np.asarray(shares / shares.sum())


def _response_shares(counts: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Unbiased shares by k-ary randomized response."""
    size, people = len(counts), counts.sum()
    true = math.exp(epsilon) / (math.exp(epsilon) + size - 1)
    other = (1 - true) / (size - 1)
    law = np.full((size, size), other) + np.eye(size) * (true - other)
    sent = sum(
        rng.multinomial(count, row) for count, row in zip(counts.astype(int), law, strict=True)
    )
    return np.asarray((sent / people - other) / (true - other))

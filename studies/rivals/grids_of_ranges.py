r"""Grids that were built for range queries, turned into densities: HDG and AHEAD.

Both estimate shares of cells by optimized unary encoding: a report is a bit a cell, the own one with
probability ½, another with $1/(e^ε + 1)$; an estimate has the variance $4 e^ε / (n (e^ε − 1)^2)$.

**HDG**. A third of the people each report x by $g_1$ intervals, y by $g_1$, both by $g_2^2$ cells, where

$$ g_1 = \Big( \frac{n (e^ε − 1)^2 α_1^2}{2 e^ε} \Big)^{1/3}, \qquad
   g_2 = \Big( 2 α_2 (e^ε − 1) \sqrt{n / e^ε} \Big)^{1/2} $$

with n people a group, $α_1 = .7$ and $α_2 = .03$, as powers of two. Shares are made nonnegative, sums
over cells and intervals reconciled by inverse variances, and a matrix of 64 × 64 is scaled until it has
all of them.

**AHEAD**. As many groups as levels refine a tree (4 children in the plane, 5 on the line) where the
estimated share of a leaf exceeds $\sqrt{(B + 1)\, \mathrm{variance}}$. Estimates of a node and of its
children's sum are combined by inverse variances, differences are passed down evenly, and leaves made
nonnegative. Within a leaf the density is uniform.

Rebuilt from the papers' definitions. Devices' reports are drawn as counts, which is the same law.

References:
    Yang, Li, Li, Wang, Su, Li, *Answering multi-dimensional range queries under local differential
    privacy* (2020). Du, Zhang, Bai, Liu, Ji, Cheng, Chen, *AHEAD: adaptive hierarchical decomposition
    for range query under local differential privacy* (2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from privot.schema.domains import Array

_ALPHA = 0.7, 0.03
_FINE = 64  # cells of HDG's matrix along each coordinate
_ROUNDS = 100


def unary_shares(counts: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Unbiased shares of cells, of people's counts, by optimized unary encoding."""
    people, other = counts.sum(), 1 / (math.exp(epsilon) + 1)
    own = counts.astype(np.int64)
    ones = rng.binomial(own, 0.5) + rng.binomial(int(people) - own, other)
    return np.asarray((ones / people - other) / (0.5 - other))


def variance(people: float, epsilon: float) -> float:
    """Of an estimated share of a rare cell."""
    return 4 * math.exp(epsilon) / (people * (math.exp(epsilon) - 1) ** 2)


def nonnegative(shares: Array) -> Array:
    """The nearest shares that are nonnegative and add up to one."""
    shares = shares.copy()
    while True:
        positive = shares > 0
        shift = (shares[positive].sum() - 1) / positive.sum()
        shares = np.where(positive, shares - shift, 0.0)
        if (shares >= 0).all():
            return np.asarray(shares)


def hybrid_grids(
    people: Array, epsilon: float, rng: np.random.Generator, sizes: tuple[int, int] | None = None
) -> Array:
    """HDG's shares (64, 64) of people (n, 2) in [−1, 1]²; `sizes` replace its rule for g₁ and g₂."""
    group = len(people) / 3
    first, second = sizes or _sizes(group, epsilon)
    part = rng.permutation(len(people)) % 3
    ends = np.linspace(-1, 1, first + 1), np.linspace(-1, 1, second + 1)
    lines = [
        nonnegative(
            unary_shares(np.histogram(people[part == axis, axis], ends[0])[0], epsilon, rng)
        )
        for axis in (0, 1)
    ]
    counts = np.histogram2d(people[part == 2, 0], people[part == 2, 1], bins=[ends[1], ends[1]])[0]
    cells = nonnegative(unary_shares(counts.ravel(), epsilon, rng)).reshape(second, second)
    _reconcile(lines, cells)
    lines, cells = (
        [nonnegative(line) for line in lines],
        nonnegative(cells.ravel()).reshape(cells.shape),
    )
    return _scaled(lines, cells)


def _sizes(group: float, epsilon: float) -> tuple[int, int]:
    gain = math.exp(epsilon) - 1
    first = (group * gain**2 * _ALPHA[0] ** 2 / (2 * math.exp(epsilon))) ** (1 / 3)
    second = (2 * _ALPHA[1] * gain * math.sqrt(group / math.exp(epsilon))) ** 0.5
    low, high = (2 ** max(1, round(math.log2(size))) for size in (first, second))
    return min(low, _FINE), min(high, _FINE)


def _reconcile(lines: list[Array], cells: Array) -> None:
    """Make sums of intervals agree with rows and columns of cells, by inverse variances."""
    second = len(cells)
    for axis, line in enumerate(lines):
        each = len(line) // second
        if each == 0:
            continue
        by_line, by_cells = line.reshape(second, each).sum(axis=1), cells.sum(axis=1 - axis)
        mean = (by_line / each + by_cells / second) / (1 / each + 1 / second)
        line += np.repeat((mean - by_line) / each, each)
        cells += np.expand_dims((mean - by_cells) / second, 1 - axis)


def _scaled(lines: list[Array], cells: Array) -> Array:
    """The matrix that was scaled to sums of intervals and of cells, in turns."""
    matrix = np.full((_FINE, _FINE), _FINE**-2.0)
    each = _FINE // len(cells)
    for _ in range(_ROUNDS):
        for axis, line in enumerate(lines):
            wide = _FINE // len(line)
            sums = matrix.sum(axis=1 - axis).reshape(-1, wide).sum(axis=1)
            ratio = np.repeat(line / np.maximum(sums, 1e-12), wide)
            matrix = matrix * np.expand_dims(ratio, 1 - axis)
        sums = matrix.reshape(len(cells), each, len(cells), each).sum(axis=(1, 3))
        matrix = matrix * np.kron(cells / np.maximum(sums, 1e-12), np.ones((each, each)))
    return np.asarray(matrix / matrix.sum())


@dataclass
class _Node:
    low: Array
    side: float
    children: list[_Node] = field(default_factory=list)
    precision: float = 0.0
    share: float = 0.0

    def add(self, share: float, precision: float) -> None:
        """Average with another unbiased estimate."""
        total = self.precision + precision
        self.share += (share - self.share) * precision / total
        self.precision = total


@dataclass(frozen=True)
class Leaves:
    """A density that is uniform within each of many boxes."""

    low: Array  # corners (leaves, d)
    side: Array  # (leaves,)
    shares: Array  # (leaves,)

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Points (size, d)."""
        chosen = rng.choice(len(self.shares), size, p=self.shares)
        inside = rng.random((size, self.low.shape[1]))
        return np.asarray(self.low[chosen] + self.side[chosen, None] * inside)


def adaptive_tree(
    people: Array, epsilon: float, rng: np.random.Generator, levels: int | None = None
) -> Leaves:
    """AHEAD's density of people (n, d) in [−1, 1]^d, d = 1 or 2, of a tree of 6 or 4 levels."""
    dimension = people.shape[1]
    split = 2 if dimension == 2 else 5
    branching = split**dimension
    levels = levels or (6 if dimension == 2 else 4)
    part = rng.permutation(len(people)) % levels
    root = _Node(np.full(dimension, -1.0), 2.0, share=1.0, precision=math.inf)
    limit = math.sqrt((branching + 1) * variance(len(people) / levels, epsilon))
    leaves, grow = [root], [root]
    for level in range(levels):
        for node in grow:
            side = node.side / split
            corners = np.stack(np.unravel_index(np.arange(branching), (split,) * dimension), 1)
            node.children = [_Node(node.low + side * corner, side) for corner in corners]
        leaves = [leaf for leaf in leaves if not leaf.children] + [
            child for node in grow for child in node.children
        ]
        group = people[part == level]
        estimates = unary_shares(_counts(leaves, group), epsilon, rng)
        for leaf, share in zip(leaves, estimates, strict=True):
            leaf.add(float(share), 1 / variance(len(group), epsilon))
        grow = [leaf for leaf in leaves if leaf.share > limit]
    _combine_up(root)
    _pass_down(root, 0.0)
    return Leaves(
        np.array([leaf.low for leaf in leaves]),
        np.array([leaf.side for leaf in leaves]),
        nonnegative(np.array([leaf.share for leaf in leaves])),
    )


def _counts(leaves: list[_Node], people: Array) -> Array:
    """How many people are in each leaf; a point on a wall belongs to the higher leaf."""
    order = np.argsort(people[:, 0], kind="stable")
    people = np.minimum(people[order], np.nextafter(1.0, 0.0))
    found = np.empty(len(leaves))
    for i, leaf in enumerate(leaves):
        ends = np.searchsorted(people[:, 0], [leaf.low[0], leaf.low[0] + leaf.side])
        inside = people[ends[0] : ends[1], 1:]
        near = (inside >= leaf.low[1:]) & (inside < leaf.low[1:] + leaf.side)
        found[i] = near.all(axis=1).sum()
    return found


def _combine_up(node: _Node) -> None:
    for child in node.children:
        _combine_up(child)
    if node.children and node.precision < math.inf:
        variances = sum(1 / child.precision for child in node.children)
        node.add(sum(child.share for child in node.children), 1 / variances)


def _pass_down(node: _Node, correction: float) -> None:
    node.share += correction
    if node.children:
        missing = node.share - sum(child.share for child in node.children)
        for child in node.children:
            _pass_down(child, missing / len(node.children))

r"""A Chow–Liu tree from privatized reports: pair tables by EM, the tree of largest mutual information.

For every pair of columns, all reports that touch both give the joint table $q_{ij}$ by maximum
posterior likelihood, the other columns of a report taken as independent at their marginals. (As a
model that is a mixture of products again: class $a$ has column $i$ equal to $a$, so $π_a = q_i(a)$
and $p_j(·|a)$ is a row of the table. `expectation` is its E-step, whatever the reports' form.) The
prior is Dirichlet, centred on the product of the marginals, with the strength of so many people;
each table is raked to the marginals. The spanning tree that maximizes $\sum I_{q_{ij}}(i; j)$ has
the largest likelihood of all trees with these pair tables; the model is

$$ p(v) = m_{r}(v_r) \prod_{c ≠ r} q(v_c | v_{\text{parent}(c)}) . $$

The strength is chosen on a held-out tenth of the reports, by the pair tables' likelihood.

References:
    Chow, Liu, *Approximating discrete probability distributions with dependence trees* (1968).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.local.classes.counts import Array, CountTables, ReportGroup, count_tables
from privot.local.classes.expectation import expectation
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.mixture import Condition, draw_categories, require_columns

_STRENGTHS = (1.0, 10.0, 100.0)
_PASSES = 60


@dataclass(frozen=True, eq=False)
class ChowLiuTree:
    """Columns in an order that puts parents first.

    Args:
        order: the columns; the first is the root.
        parents: the parent of each column, by column; −1 for the root.
        conditionals: p(v | parent's category) by column, shape (K, K of the parent); root (K, 1).
    """

    order: tuple[int, ...]
    parents: tuple[int, ...]
    conditionals: tuple[Array, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many categories each column has."""
        return tuple(len(table) for table in self.conditionals)

    def marginal(self, columns: Sequence[int]) -> Array:
        """The joint distribution of `columns`, an array with one axis for each, in their order.

        Raises:
            PrivotError: if a column is named twice or does not exist.
        """
        require_columns(columns, self.sizes)
        names: dict[
            int, list[int]
        ] = {}  # the wanted columns among a column's descendants and itself
        messages: dict[int, Array] = {}  # their joint law given the column, (K, cells of them)
        for column in reversed(self.order):
            table, found = np.ones((self.sizes[column], 1)), []
            for child in (c for c in self.order if self.parents[c] == column and names[c]):
                part = self.conditionals[child].T @ messages[child]
                table = (table[:, :, None] * part[:, None, :]).reshape(len(table), -1)
                found += names[child]
            if column in columns:
                own = np.eye(self.sizes[column])
                table = (own[:, :, None] * table[:, None, :]).reshape(len(table), -1)
                found = [column, *found]
            names[column], messages[column] = found, table
        root = self.order[0]
        joint = self.conditionals[root][:, 0] @ messages[root]
        shaped = joint.reshape([self.sizes[column] for column in names[root]])
        return shaped.transpose([names[root].index(column) for column in columns])

    def sample(
        self, num_rows: int, rng: np.random.Generator, where: Condition | None = None
    ) -> NDArray[np.int64]:
        """Rows of codes (n, m), given that the columns in `where` have one code or one of a set.

        Raises:
            PrivotError: if the condition has probability zero.
        """
        given = {c: np.isin(np.arange(self.sizes[c]), codes) for c, codes in (where or {}).items()}
        # P(what is demanded of a column and its descendants | the column), from the leaves up.
        demand = [given.get(c, np.ones(size, bool)) * 1.0 for c, size in enumerate(self.sizes)]
        for column in reversed(self.order[1:]):
            demand[self.parents[column]] *= self.conditionals[column].T @ demand[column]
        root = self.order[0]
        if not self.conditionals[root][:, 0] @ demand[root] > 0:
            raise PrivotError(f"where is {dict(where or {})!r}, which has probability 0: relax it")
        out = np.empty((num_rows, len(self.order)), np.int64)
        for column in self.order:
            table = self.conditionals[column] * demand[column][:, None]
            mass = table.sum(axis=0)
            table = np.where(mass > 0, table / np.where(mass > 0, mass, 1), 1 / len(table))
            parent = self.parents[column]
            known = out[:, parent] if parent >= 0 else np.zeros(num_rows, np.int64)
            out[:, column] = draw_categories(table, known, rng)
        return out


def chow_liu(
    groups: Iterable[ReportGroup],
    sizes: Sequence[int],
    *,
    strengths: Sequence[float] = _STRENGTHS,
    passes: int = _PASSES,
    seed: int,
) -> ChowLiuTree:
    """The tree of the reports; pairs that no report touches count as independent.

    Args:
        groups: the reports.
        sizes: the columns' alphabet sizes.
        strengths: of the prior, in people, to choose from by held-out reports.
        passes: EM steps a pair.
        seed: of what is held out.

    Raises:
        PrivotError: if the groups contradict `sizes`.
    """
    kept = list(groups)
    marginals = stacked_marginals(count_tables(kept, sizes))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    seen: dict[tuple[int, int], list[ReportGroup]] = {}
    for group in kept:
        for pair in combinations(sorted(group.queries), 2):
            seen.setdefault(pair, []).append(group)
    if len(strengths) > 1:
        scores = np.zeros(len(strengths))
        for pair, touching in seen.items():
            reports = _about(touching, pair, sizes)
            held_out = reports.held_out(1, 10, np.random.default_rng([seed, *pair]))[0]
            training = reports.with_counts(reports.counts - held_out.counts)
            for i, strength in enumerate(strengths):
                p, weights = _pair_classes(training, marginals, pair, strength, passes)
                scores[i] += expectation(held_out, p, weights).total(held_out.counts)
        strengths = (strengths[int(scores.argmax())],)
    joints = {}
    for pair, touching in seen.items():
        reports = _about(touching, pair, sizes)
        p, weights = _pair_classes(reports, marginals, pair, strengths[0], passes)
        second = slice(offsets[pair[1]], offsets[pair[1] + 1])
        first = marginals[offsets[pair[0]] : offsets[pair[0] + 1], 0]
        joints[pair] = _raked(weights[:, None] * p[second].T, first, marginals[second, 0])
    return _tree(joints, np.split(marginals[:, 0], offsets[1:-1]))


def _about(
    groups: Iterable[ReportGroup], pair: tuple[int, int], sizes: Sequence[int]
) -> CountTables:
    """The reports, with only their answers about the pair: others say nothing of it here."""
    parts = []
    for group in groups:
        kept = [i for i, factor in enumerate(group.factors) if set(factor.queries) & set(pair)]
        factors = tuple(group.factors[i] for i in kept)
        parts.append(ReportGroup(factors, group.answers[:, kept], group.counts))
    return count_tables(parts, sizes)


def _pair_classes(
    tables: CountTables, marginals: Array, pair: tuple[int, int], strength: float, passes: int
) -> tuple[Array, Array]:
    """The pair's table as classes: first column one-hot, second its rows, the others the marginals."""
    offsets = tables.offsets
    first, second = (slice(offsets[column], offsets[column + 1]) for column in pair)
    num_classes = int(tables.sizes[pair[0]])
    p = np.repeat(marginals, num_classes, axis=1)
    p[first] = np.eye(num_classes)
    prior = strength * marginals[first, 0]
    weights = marginals[first, 0].copy()
    for _ in range(passes):
        found = expectation(tables, p, weights)
        update = found.cells[second] + prior * marginals[second]
        sums = update.sum(axis=0)
        p[second] = np.where(sums > 0, update / np.where(sums > 0, sums, 1), marginals[second])
        weights = found.classes + prior
        weights = weights / weights.sum()
    return p, weights


def _raked(table: Array, rows: Array, columns: Array) -> Array:
    """The table scaled to its margins by twenty rounds of proportional fitting."""
    for _ in range(20):
        for axis, wanted in ((1, rows[:, None]), (0, columns[None])):
            sums = table.sum(axis=axis, keepdims=True)
            table = table * np.divide(wanted, sums, out=np.zeros_like(wanted), where=sums > 0)
    total = table.sum()
    return table / total if total > 0 else np.outer(rows, columns)


def _tree(joints: dict[tuple[int, int], Array], marginals: list[Array]) -> ChowLiuTree:
    """Prim's algorithm on mutual information; a pair without a table has none."""
    num_columns = len(marginals)
    information = np.zeros((num_columns, num_columns))
    for (i, j), table in joints.items():
        product = np.outer(table.sum(axis=1), table.sum(axis=0))
        positive = (table > 0) & (product > 0)
        found = (table[positive] * np.log(table[positive] / product[positive])).sum()
        information[i, j] = information[j, i] = max(found, 0.0)
    order, parents = [0], [-1] * num_columns
    nearest = np.zeros(num_columns, np.int64)
    strength = information[0].copy()
    strength[0] = -1.0
    while len(order) < num_columns:
        column = int(strength.argmax())
        parents[column] = int(nearest[column])
        order.append(column)
        closer = (information[column] > strength) & (strength >= 0)
        nearest[closer] = column
        strength = np.where(closer, information[column], strength)
        strength[column] = -1.0
    conditionals = []
    for column, parent in enumerate(parents):
        if parent < 0:
            conditionals.append(marginals[column][:, None])
            continue
        pair = (min(column, parent), max(column, parent))
        table = joints.get(pair, np.outer(marginals[pair[0]], marginals[pair[1]]))
        table = table if column == pair[0] else table.T
        sums = table.sum(axis=0)
        level = np.where(sums > 0, table / np.where(sums > 0, sums, 1), marginals[column][:, None])
        conditionals.append(level)
    return ChowLiuTree(tuple(order), tuple(parents), tuple(conditionals))

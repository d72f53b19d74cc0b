r"""What one report tells of columns and of pairs of columns, and the error that follows.

Public inputs only: alphabet sizes, ε, and the number n of people. A form C, a set of columns, is asked
of $n_C$ people.

**What one report tells.** Split the density $g = p ∏K_i$ of records into orthogonal parts
$1 + \sum_V g_V$: a main effect of each column, an interaction of each pair, and so on. At the uniform
distribution, one report has the Fisher information $ι \cdot \mathrm{mean}(g_V^2)$ about $g_V$, $V ⊆ C$:

- joint: the likelihood of a set S of w of the $K = ∏_{i∈C} K_i$ cells is linear in the cells'
  probabilities, of slope $p − q$ (the chances that the own and a given other cell is in S), and S is
  uniform, so $ι = (p−q)^2 (K−1) / (w(K−w))$, the same for every V: what a report of k columns tells of
  a pair is spoiled by all K cells, not by the pair's own;
- split, randomized response of ε/k on each of k columns, drawn uniformly: responses have density
  $1 + \sum_V g_V ∏_{i∈V} (p_i−q_i)$, so $ι_V = ∏_{i∈V} (p_i−q_i)^2$.

Informations of different people add up: $J_V = \sum_{C ⊇ V} n_C ι_{C,V}$.

**Error.** Main effects of a column have $K_i−1$ dimensions, interactions of a pair
$(K_i−1)(K_j−1)$. The unbiased estimate with least variance, a weighted mean of supports of cells, gives
each cell of column i, and of the pair i, j, the variance

$$ \frac{1}{K_i^2} \frac{K_i−1}{J_i}, \qquad \frac{1}{K_i^2 K_j^2} \Bigl(
   \frac{K_i−1}{J_i} + \frac{K_j−1}{J_j} + \frac{(K_i−1)(K_j−1)}{J_{ij}} \Bigr) , $$

which is the Cramér–Rao bound, so that of maximum likelihood without any model. Expected total
variation is $½ \sqrt{2/π} \sum \mathrm{sd}$ over the cells.

References:
    Ye, Barg, *Optimal schemes for discrete distribution estimation under locally differential
    privacy* (2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.mechanisms import RandomizedResponse, SubsetSelection
from privot.release.reports.questionnaire import Questionnaire
from privot.schema import Array

# Expected total variation of a sum of Gaussian errors over cells, per sum of their deviations.
_PER_DEVIATION = math.sqrt(2 / math.pi) / 2


def told(num_cells: Sequence[int], epsilon: float) -> Array:
    """The ι of joint reports of so many cells each."""
    return np.array([_told(int(cells), epsilon) for cells in num_cells])


@lru_cache(maxsize=65536)
def _told(num_cells: int, epsilon: float) -> float:
    mechanism = SubsetSelection(num_cells, epsilon)
    (own, other), width = mechanism.probabilities, mechanism.subset_size
    return (own - other) ** 2 * (num_cells - 1) / (width * (num_cells - width))


@dataclass(frozen=True, eq=False)
class Incidence:
    """Of which columns and pairs each form tells how much; pairs are flat indices i·m + j, i < j.

    Arguments:
        columns: ι of a form where it holds the column, sparse, (columns, forms).
        pairs: ι where it holds the pair, sparse, (columns², forms).
    """

    columns: scipy.sparse.csr_array
    pairs: scipy.sparse.csr_array

    @classmethod
    def of(cls, forms: Sequence[tuple[int, ...]], total: int, iota: Array) -> Self:
        """Of forms of `total` columns, each with its ι."""
        single = [(c, n) for n, form in enumerate(forms) for c in form]
        double = [
            (i * total + j, n) for n, form in enumerate(forms) for i, j in combinations(form, 2)
        ]
        parts = []
        for places, height in ((single, total), (double, total**2)):
            row, form = np.array(places, np.int64).reshape(-1, 2).T
            shape = (height, len(forms))
            parts.append(scipy.sparse.csr_array((iota[form], (row, form)), shape=shape))
        return cls(*parts)

    def information(self, shares: Array) -> tuple[Array, Array]:
        """Of one person's report about main effects (m,) and interactions (m²,)."""
        return self.columns @ shares, self.pairs @ shares

    def gradient(self, of_columns: Array, of_pairs: Array) -> Array:
        """By each form's share, from the gradients by the two informations."""
        return np.asarray(self.columns.T @ of_columns + self.pairs.T @ of_pairs)

    def number(self, pairs: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
        """The flat indices of pairs."""
        return np.array(pairs, np.int64) @ np.array([self.columns.shape[0], 1])


def joint_errors(asked: Questionnaire, epsilon: float, people: int) -> tuple[Array, Array]:
    """Expected total variation of every column (m,) and pair (m, m), of one cell of each form.

    Infinite where nothing is told; the table of pairs is symmetric, its diagonal zero. Of a column with
    several codings it is that of the longest.
    """
    sizes = [max(each) for each in asked.codings.values()]
    weights = np.array(asked.weights, np.float64)
    cells = [math.prod(sizes[column] for column in form) for form in asked.forms]
    incidence = Incidence.of(asked.forms, len(sizes), told(cells, epsilon))
    main, pair = incidence.information(weights / weights.sum())
    square = pair.reshape(len(sizes), len(sizes))
    return _errors(sizes, main, square + square.T, people)


def split_errors(
    sizes: Sequence[int], report_columns: int, epsilon: float, people: int
) -> tuple[Array, Array]:
    """The same for randomized response of ε/k on each of k columns."""
    responses = [RandomizedResponse(size, epsilon / report_columns) for size in sizes]
    slopes = np.array([np.subtract(*response.probabilities) for response in responses])
    pair = np.outer(slopes, slopes) ** 2 * pair_share(report_columns, len(sizes))
    return _errors(sizes, slopes**2 * report_columns / len(sizes), pair, people)


def pair_share(k: int, total: int) -> float:
    """Share k(k−1)/(m(m−1)) of all people who report a given pair of m columns."""
    return k * (k - 1) / (total * (total - 1)) if total > 1 else 0.0


def _errors(sizes: Sequence[int], main: Array, pair: Array, people: int) -> tuple[Array, Array]:
    free = np.array(sizes, np.float64) - 1
    with np.errstate(divide="ignore"):
        columns = free / (people * main)
        both = columns[:, None] + columns + np.outer(free, free) / (people * pair)
    # K cells of deviation (variance/K²)^½ each: the number of cells cancels.
    two_way = _PER_DEVIATION * np.sqrt(both)
    np.fill_diagonal(two_way, 0.0)
    return _PER_DEVIATION * np.sqrt(columns), two_way

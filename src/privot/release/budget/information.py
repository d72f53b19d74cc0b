r"""What one report tells of columns and of pairs of columns, and how many columns it should be about.

Public inputs only: alphabet sizes, ε, and the number n of people. Of m columns each person reports k,
drawn uniformly, so a combination C is asked of $n_C = n / \binom{m}{k}$ people.

**What one report tells.** Split the density $g = p ∏K_i$ of records into orthogonal parts
$1 + \sum_V g_V$: a main effect of each column, an interaction of each pair, and so on. At the uniform
distribution, one report has the Fisher information $ι \cdot \mathrm{mean}(g_V^2)$ about $g_V$, $V ⊆ C$:

- joint: the likelihood of a set S of w of the $K = ∏_{i∈C} K_i$ cells is linear in the cells'
  probabilities, of slope $p − q$ (the chances that the own and a given other cell is in S), and S is
  uniform, so $ι = (p−q)^2 (K−1) / (w(K−w))$, the same for every V: what a report of k columns tells of
  a pair is spoiled by all K cells, not by the pair's own;
- split, randomized response of ε/k on each column: responses have density
  $1 + \sum_V g_V ∏_{i∈V} (p_i−q_i)$, so $ι_V = ∏_{i∈V} (p_i−q_i)^2$.

Informations of different people add up: $J_V = \sum_{C ⊇ V} n_C ι_{C,V}$.

**Error.** Main effects of a column have $K_i−1$ dimensions, interactions of a pair
$(K_i−1)(K_j−1)$. The unbiased estimate with least variance, a weighted mean of supports of cells, gives
each cell of column i, and of the pair i, j, the variance

$$ \frac{1}{K_i^2} \frac{K_i−1}{J_i}, \qquad \frac{1}{K_i^2 K_j^2} \Bigl(
   \frac{K_i−1}{J_i} + \frac{K_j−1}{J_j} + \frac{(K_i−1)(K_j−1)}{J_{ij}} \Bigr) , $$

which is the Cramér–Rao bound, so that of maximum likelihood without any model. Expected total
variation is $½ \sqrt{2/π} \sum \mathrm{sd}$ over the cells.

**The default k** is that of the least expected two-way error. All errors fall like $n^{−1/2}$, so it
depends on ε and the alphabets alone.

References:
    Ye, Barg, *Optimal schemes for discrete distribution estimation under locally differential
    privacy* (2018).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

import numpy as np

from privot.errors import PrivotError
from privot.mechanisms import RandomizedResponse
from privot.release.reports.joint import MOST_CELLS, JointReport, largest_fitting
from privot.schema import Array

MOST_PLANNED = 4
# A combination of columns is a table of counts: a default makes no more of them unless two columns do.
_MOST_TABLES = 2**12
# Expected total variation of a sum of Gaussian errors over cells, per sum of their deviations.
_PER_DEVIATION = math.sqrt(2 / math.pi) / 2


def choose_report_columns(sizes: Collection[int], epsilon: float) -> int:
    """The default k: of least expected two-way error, from 2 to `MOST_PLANNED`, as far as it fits.

    Beyond 30 columns it is 2: the estimator keeps a table for every combination of columns.

    Examples:
        >>> [choose_report_columns([2, 10, 10, 9], epsilon) for epsilon in (2.0, 6.0, 10.0)]
        [2, 3, 4]

    Raises:
        PrivotError: if not even one column can be reported.
    """
    fits = largest_fitting(sizes)
    if fits < 1:
        raise PrivotError(
            f"a column has {max(sizes)} values, more than {MOST_CELLS}: declare fewer bins, or "
            "categories with one that stands for others"
        )
    if fits <= 2:
        return fits
    named = {str(column): size for column, size in enumerate(sizes)}

    def error(k: int) -> float:
        return float(expected_errors(named, "joint", k, epsilon, people=1)[1].sum())

    tables = {k: math.comb(len(sizes), k) for k in range(3, min(fits, MOST_PLANNED) + 1)}
    return min([2, *(k for k, number in tables.items() if number <= _MOST_TABLES)], key=error)


def expected_errors(
    sizes: Mapping[str, int], report: str, report_columns: int, epsilon: float, people: int
) -> tuple[Array, Array]:
    """Expected total variation of every column (m,) and pair (m, m); infinite where nothing is told.

    The table of pairs is symmetric; its diagonal is zero.
    """
    if report == "joint":
        main, pair = _joint_information(JointReport(sizes, report_columns, epsilon))
    else:
        main, pair = _split_information(list(sizes.values()), report_columns, epsilon)
    free = np.array(list(sizes.values()), np.float64) - 1
    with np.errstate(divide="ignore"):
        columns = free / (people * main)
        both = columns[:, None] + columns + np.outer(free, free) / (people * pair)
    # K cells of deviation (variance/K²)^½ each: the number of cells cancels.
    two_way = _PER_DEVIATION * np.sqrt(both)
    np.fill_diagonal(two_way, 0.0)
    return _PER_DEVIATION * np.sqrt(columns), two_way


def _joint_information(report: JointReport) -> tuple[Array, Array]:
    """Information of one person's report about main effects (m,) and interactions (m, m)."""
    asked, num_cells = report.combinations, report.num_cells
    distinct, which = np.unique(num_cells, return_inverse=True)
    told = np.array([_told(report, cells) for cells in distinct.tolist()])[which] / len(asked)
    total = len(report.sizes)
    main = sum(np.bincount(column, told, total) for column in asked.T)
    pair = np.zeros(total * total)
    for first, second in combinations(asked.T.astype(np.int64), 2):
        pair += np.bincount(first * total + second, told, total * total)
    square = pair.reshape(total, total)
    return np.asarray(main), square + square.T


def _told(report: JointReport, num_cells: int) -> float:
    """The ι of one combination."""
    mechanism = report.mechanism(num_cells)
    (own, other), width = mechanism.probabilities, mechanism.subset_size
    return (own - other) ** 2 * (num_cells - 1) / (width * (num_cells - width))


def _split_information(sizes: Sequence[int], k: int, epsilon: float) -> tuple[Array, Array]:
    """The same for randomized response of ε/k on each of k of the columns."""
    total = len(sizes)
    responses = [RandomizedResponse(size, epsilon / k).probabilities for size in sizes]
    slopes = np.array([own - other for own, other in responses])
    pair = np.outer(slopes, slopes) ** 2 * pair_share(k, total)
    return slopes**2 * k / total, pair


def pair_share(k: int, total: int) -> float:
    """Share k(k−1)/(m(m−1)) of all people who report a given pair of m columns."""
    return k * (k - 1) / (total * (total - 1)) if total > 1 else 0.0

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

from privot.core.errors import PrivotError
from privot.mechanisms import RandomizedResponse, SubsetSelection
from privot.randomizer.reports.joint import MOST_CELLS, MOST_FORMS, Questionnaire
from privot.schema.domains import Array

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


# Which columns joint reports ask together, and how often: the forms that calibration takes by default.
#
# Public inputs only: alphabet sizes and ε. Candidates are all sets of one to four columns whose cells
# and number stay small; a design gives each a share $π_C$ of the people. What it tells of a column
# and of a pair is $J_V = \sum_{C ⊇ V} π_C ι_C$ (`privot.randomizer.information`). The design
# minimizes
#
# $$ \sum_{i<j} \sqrt{\frac{a_i}{J_i} + \frac{a_j}{J_j} + γ_{ij} \frac{a_i a_j}{J_{ij}}} ,
#    \qquad a_i = e_i (e_i−1), \quad e_i = K_i^{.7} . $$
#
# With $γ_{ij} = 1$ and $a_i = K_i − 1$, that is the two-way error of an estimate without a model. Few
# long alphabets are even, and what is rare errs by little: of $K_i$ values $K_i^{.7}$ count. A model
# needs far less of the interactions, as columns depend on each other in a few ways rather than in
# all, and the less the noisier they are, while one-way errors no model takes away: so $γ_{ij} = .2
# \min(1, ε/8)^3$, and $1/m^2$ of one of their $(K_i−1)(K_j−1)$ dimensions more. The sum is convex in
# π, and the multiplicative algorithm $π_C ← π_C \sqrt{g_C / \sum π g}$ with the gradient $−g$ reaches
# its least value (Silvey, Titterington, Torsney 1978). Populations are not what a design assumes, so
# shares are tempered to their square roots, and every pair that fits is asked. Weights of pairs,
# where somebody gives them (`privot.randomizer.overrides`), multiply $γ_{ij}$, up to 1.
#
# The form of γ and the tempering were chosen on random Bayesian networks and latent classes of 6 to
# 20 columns of 2 to 42 values, 40 000 people: against all pairs or triples alike, two-way errors of
# latent classes fell by some 15 % at ε = 1, 5 to 8 % at ε = 2 and 8, and 2 % at ε = 4. With $K_i$ in
# the place of $K_i^{.7}$ they are 3 % more at ε = 2 and the same within 1 % above. The formal optimum
# (γ = 1, no tempering) gained nothing. Small ε ask many single columns, large ε sets of three and
# four.
#
# References:
#     Silvey, Titterington, Torsney, *An algorithm for optimal designs on a finite design space* (1978);
#     Yu, *Monotonic convergence of a general algorithm for computing optimal designs* (2010).


Forms = tuple[tuple[int, ...], ...]

_LONGEST = 4
_MOST_TABLES = 2**12  # of forms of one length beyond two: the estimator keeps a table for each
_ITERATIONS = 300
_NEEDED = 0.2  # share of the interactions' dimensions that a model needs, at ε = 8 and more
_EVEN = 0.7  # power of an alphabet's size that many values count as
_SELDOM = 0.01  # forms with less than this share of a pair's average are left out
_LARGEST_WEIGHT = 1000


def choose_forms(
    sizes: Sequence[int], epsilon: float, of_pairs: Array | None = None
) -> tuple[Forms, tuple[int, ...]]:
    """Sets of columns to ask together, by their index, and the weights to draw them by.

    With `of_pairs` (m, m), symmetric, the interactions of some pairs are wanted more than others'.

    Examples:
        >>> forms, weights = choose_forms([2, 10, 10, 9], 1.0)
        >>> forms[:5], weights[:5]
        (((0,), (1,), (2,), (3,), (0, 1)), (285, 1000, 1000, 941, 370))
        >>> [max(map(len, choose_forms([2, 10, 10, 9], epsilon)[0])) for epsilon in (1.0, 10.0)]
        [2, 4]

    Raises:
        PrivotError: if not even one column can be reported.
    """
    if max(sizes) > MOST_CELLS:
        raise PrivotError(
            f"a column has {max(sizes)} values, more than {MOST_CELLS}: declare fewer bins, or "
            "categories with one that stands for others"
        )
    candidates = _candidates(sizes)
    pairs = [form for form in candidates if len(form) == 2]
    if not pairs:
        alone = tuple((column,) for column in range(len(sizes)))
        return alone, (1,) * len(alone)
    weights_of_pairs = None if of_pairs is None else np.array([of_pairs[pair] for pair in pairs])
    shares = _design(sizes, candidates, pairs, epsilon, weights_of_pairs)
    kept = {
        form: share
        for form, share in zip(candidates, shares.tolist(), strict=True)
        if share > _SELDOM / len(pairs)
    }
    asked = {pair for form in kept for pair in combinations(form, 2)}
    kept |= {pair: _SELDOM / len(pairs) for pair in pairs if pair not in asked}
    tempered = np.sqrt([kept[form] for form in candidates if form in kept])
    weights = (
        np.maximum(1, np.rint(_LARGEST_WEIGHT * tempered / tempered.max())).astype(int).tolist()
    )
    return tuple(form for form in candidates if form in kept), tuple(weights)


def _candidates(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for length in range(1, min(_LONGEST, len(sizes)) + 1):
        most = _MOST_TABLES if length > 2 else MOST_FORMS - len(sizes)
        if length == 1 or math.comb(len(sizes), length) <= most:
            found += [
                form
                for form in combinations(range(len(sizes)), length)
                if math.prod(sizes[column] for column in form) <= MOST_CELLS
            ]
    return found


def _design(
    sizes: Sequence[int],
    candidates: Sequence[tuple[int, ...]],
    pairs: Sequence[tuple[int, ...]],
    epsilon: float,
    wanted: Array | None = None,
) -> Array:
    """Shares of the candidates of the least sum."""
    cells = [math.prod(sizes[column] for column in form) for form in candidates]
    incidence = Incidence.of(candidates, len(sizes), told(cells, epsilon))
    effective = np.array(sizes, np.float64) ** _EVEN
    free = effective * (effective - 1)
    first, second = np.array(pairs).T
    dimensions = np.array([(sizes[i] - 1.0) * (sizes[j] - 1.0) for i, j in pairs])
    needed = _NEEDED * min(1.0, epsilon / 8) ** 3 + 1 / len(sizes) ** 2 / dimensions
    needed = np.minimum(1.0, needed if wanted is None else needed * wanted)
    both = needed * free[first] * free[second]
    number = incidence.number(pairs)
    apart = np.setdiff1d(np.arange(len(sizes)), pairs)
    shares = np.full(len(candidates), 1 / len(candidates))
    for _ in range(_ITERATIONS):
        main, pair = incidence.information(shares)
        one, two = free / main, both / pair[number]
        slope = 0.5 / np.sqrt(one[first] + one[second] + two)
        of_columns = np.bincount(first, slope, len(sizes)) + np.bincount(second, slope, len(sizes))
        of_columns[apart] = 0.5 / np.sqrt(one[apart])  # of columns too large for a pair
        of_pairs = np.zeros(pair.size)
        of_pairs[number] = slope * two / pair[number]
        gradient = incidence.gradient(of_columns * one / main, of_pairs)
        shares = shares * np.sqrt(gradient)
        shares = shares / shares.sum()
    return shares

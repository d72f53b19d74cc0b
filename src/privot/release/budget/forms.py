r"""Which columns joint reports ask together, and how often: the forms that calibration takes by default.

Public inputs only: alphabet sizes and ε. Candidates are all sets of one to four columns whose cells and
number stay small; a design gives each a share $π_C$ of the people. What it tells of a column and of a
pair is $J_V = \sum_{C ⊇ V} π_C ι_C$ (`privot.release.budget.information`). The design minimizes

$$ \sum_{i<j} \sqrt{\frac{a_i}{J_i} + \frac{a_j}{J_j} + γ_{ij} \frac{a_i a_j}{J_{ij}}} ,
   \qquad a_i = e_i (e_i−1), \quad e_i = K_i^{.7} . $$

With $γ_{ij} = 1$ and $a_i = K_i − 1$, that is the two-way error of an estimate without a model. Few
long alphabets are even, and what is rare errs by little: of $K_i$ values $K_i^{.7}$ count. A model
needs far less of the interactions, as columns depend on each other in a few ways rather than in all, and
the less the noisier they are, while one-way errors no model takes away: so
$γ_{ij} = .2 \min(1, ε/8)^3$, and $1/m^2$ of one of their $(K_i−1)(K_j−1)$ dimensions more. The sum is
convex in π, and the multiplicative algorithm $π_C ← π_C \sqrt{g_C / \sum π g}$ with the gradient $−g$
reaches its least value (Silvey, Titterington, Torsney 1978). Populations are not what a design assumes,
so shares are tempered to their square roots, and every pair that fits is asked. Weights of pairs, where
somebody gives them (`privot.release.budget.weighing`), multiply $γ_{ij}$, up to 1.

The form of γ and the tempering were chosen on random Bayesian networks and latent classes of 6 to 20
columns of 2 to 42 values, 40 000 people: against all pairs or triples alike, two-way errors of latent
classes fell by some 15 % at ε = 1, 5 to 8 % at ε = 2 and 8, and 2 % at ε = 4. With $K_i$ in the place of
$K_i^{.7}$ they are 3 % more at ε = 2 and the same within 1 % above. The formal optimum (γ = 1, no
tempering) gained nothing. Small ε ask many single columns, large ε sets of three and four.

References:
    Silvey, Titterington, Torsney, *An algorithm for optimal designs on a finite design space* (1978);
    Yu, *Monotonic convergence of a general algorithm for computing optimal designs* (2010).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from privot.errors import PrivotError
from privot.release.budget.information import Incidence, told
from privot.release.reports.questionnaire import MOST_CELLS, MOST_FORMS
from privot.schema import Array

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

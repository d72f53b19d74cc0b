r"""Fisher information of reports about columns and pairs, expected errors, and the design of forms.

All inputs are public: the numbers $K_i$ of values of the m columns, ε, and the number n of people. A
form C is a set of columns that are reported together, by $n_C$ people.

**Information of one report.** The density $g = P ∏K_i$ of a distribution P of records is a sum of
orthogonal terms $1 + \sum_V g_V$ for sets V of columns: a main effect of each column, an interaction of
each pair, and so on. At the uniform distribution, one report has the Fisher information
$ι_{C,V} \cdot \mathrm{mean}(g_V^2)$ about $g_V$, $V ⊆ C$:

- joint reports: the likelihood of a set S of w of the $K = ∏_{i∈C} K_i$ cells is linear in the cells'
  probabilities with slope $p − q$ (the probabilities that the true cell, and a given other cell, is in
  S), and S is uniform, so $ι_{C,V} = (p−q)^2 (K−1) / (w(K−w))$ for every V. The information of a report
  about a pair depends on all K cells, not only on those of the pair;
- split reports, randomized response with ε/k on each of k columns drawn uniformly: responses have the
  density $1 + \sum_V g_V ∏_{i∈V} (p_i−q_i)$, so $ι_{C,V} = ∏_{i∈V} (p_i−q_i)^2$.

The information of different people adds up: $J_V = \sum_{C ⊇ V} n_C ι_{C,V}$.

**Error.** Main effects of a column have $K_i−1$ dimensions, interactions of a pair
$(K_i−1)(K_j−1)$. The unbiased estimate of least variance, a weighted mean of the supports of cells, has
for each cell of column i, and of the pair i, j, the variance

$$ \frac{1}{K_i^2} \frac{K_i−1}{J_i}, \qquad \frac{1}{K_i^2 K_j^2} \Bigl(
   \frac{K_i−1}{J_i} + \frac{K_j−1}{J_j} + \frac{(K_i−1)(K_j−1)}{J_{ij}} \Bigr) , $$

which is the Cramér–Rao bound, and the asymptotic variance of maximum likelihood without a model. The
expected total variation is $½ \sqrt{2/π} \sum \mathrm{sd}$ over the cells.

**Design of forms**, the default of calibration. Possible forms are the sets of one to four columns,
unless their cells or their number are too large. A design gives each a share $π_C$ of the people, and
has the information $J_V = \sum_{C ⊇ V} π_C ι_C$ about a column or a pair. The design minimizes

$$ \sum_{i<j} \sqrt{\frac{a_i}{J_i} + \frac{a_j}{J_j} + γ_{ij} \frac{a_i a_j}{J_{ij}}} ,
   \qquad a_i = e_i (e_i−1), \quad e_i = K_i^{.7} . $$

With $γ_{ij} = 1$ and $a_i = K_i − 1$ this is the two-way error of an estimate without a model. The
values of long alphabets are rarely equally frequent, and rare values have small errors, so $K_i$ is
replaced by $K_i^{.7}$. A model reduces the errors of interactions, since columns depend on each other in
few ways, but not one-way errors. So $γ_{ij} = .2 \min(1, ε/8)^3 + 1/(m^2 (K_i−1)(K_j−1))$. The sum is
convex in π, and the multiplicative algorithm $π_C ← π_C \sqrt{g_C / \sum π g}$, with −g the gradient,
converges to the minimum (Silvey, Titterington, Torsney 1978). As real populations differ from these
assumptions, shares are **tempered**, that is replaced by their square roots, and every pair that fits is
in some form. Weights of pairs (`privot.randomizer.overrides`) multiply $γ_{ij}$, up to 1.

γ and the tempering were chosen on random Bayesian networks and latent classes of 6 to 20 columns of 2 to
42 values, with 40 000 people. Compared with equal shares of all pairs or all triples, the two-way errors
of latent classes were smaller by 15 % at ε = 1, and 2 to 8 % at ε = 2 to 8. The formal optimum (γ = 1,
no square roots) was not better. Large ε lead to forms of more columns.

References:
    Ye, Barg, *Optimal schemes for discrete distribution estimation under locally differential privacy*
    (2018). Silvey, Titterington, Torsney, *An algorithm for optimal designs on a finite design space*
    (1978); Yu, *Monotonic convergence of a general algorithm for computing optimal designs* (2010).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import scipy

from privot.core.errors import MOST_PEOPLE, PrivotError
from privot.mechanisms import Mechanism, RandomizedResponse, SubsetSelection
from privot.mechanisms.choice import planned_error
from privot.randomizer.reports.joint import MOST_CELLS, MOST_FORMS, FormDesign
from privot.schema.domains import Array, Domain

if TYPE_CHECKING:
    from privot.randomizer.randomizer import Randomizer

# Expected total variation of Gaussian errors of cells, divided by the sum of their deviations.
_PER_DEVIATION = math.sqrt(2 / math.pi) / 2


@lru_cache(maxsize=65536)
def _cell_information(num_cells: int, epsilon: float) -> float:
    """Return ι of a joint report with K = `num_cells` cells."""
    mechanism = SubsetSelection(num_cells, epsilon)
    (p, q), w = mechanism.probabilities, mechanism.subset_size
    return (p - q) ** 2 * (num_cells - 1) / (w * (num_cells - w))


@dataclass(frozen=True, eq=False)
class Incidence:
    """Information ι of each form about each column and each pair."""

    # ι of the forms that contain a column, else 0; sparse (m, forms).
    columns: scipy.sparse.csr_array
    # ι of the forms that contain the pair i < j in row i·m + j, else 0; sparse (m², forms).
    pairs: scipy.sparse.csr_array

    @classmethod
    def of(cls, forms: Sequence[tuple[int, ...]], sizes: Sequence[int], epsilon: float) -> Self:
        """Build the matrices for joint reports of forms of columns with these sizes (m,)."""
        m, numbered = len(sizes), list(enumerate(forms))
        cells = [math.prod(sizes[column] for column in form) for form in forms]
        iota = np.array([_cell_information(number, epsilon) for number in cells])
        columns = [(i, number) for number, form in numbered for i in form]
        pairs = [(i * m + j, number) for number, form in numbered for i, j in combinations(form, 2)]

        def matrix(indices: list[tuple[int, int]], height: int) -> scipy.sparse.csr_array:
            row, form = np.array(indices, np.int64).reshape(-1, 2).T
            return scipy.sparse.csr_array((iota[form], (row, form)), shape=(height, len(forms)))

        return cls(matrix(columns, m), matrix(pairs, m**2))

    def information(self, shares: Array) -> tuple[Array, Array]:
        """Compute a report's mean information about main effects (m,) and interactions (m²,)."""
        return self.columns @ shares, self.pairs @ shares

    def gradient(self, column_gradient: Array, pair_gradient: Array) -> Array:
        """Compute a gradient in the shares (forms,) from gradients in the results of `information`."""
        columns, pairs = self._transposed
        return np.asarray(columns @ column_gradient + pairs @ pair_gradient)

    @cached_property
    def _transposed(self) -> tuple[scipy.sparse.csc_array, scipy.sparse.csc_array]:
        return self.columns.T, self.pairs.T


class Errors(NamedTuple):
    """Expected total variation of every column (m,) and every pair (m, m).

    It is infinite for a pair of which nothing is reported, and 0 on the diagonal.
    """

    one_way: Array
    two_way: Array


def joint_errors(design: FormDesign, epsilon: float, people: int) -> Errors:
    """Compute the errors of joint reports, with the longest coding of each column."""
    sizes, weights = design.sizes, np.array(design.weights, np.float64)
    incidence = Incidence.of(design.forms, sizes, epsilon)
    column_information, pair_information = incidence.information(weights / weights.sum())
    upper = pair_information.reshape(len(sizes), len(sizes))
    return _errors(sizes, column_information, upper + upper.T, people)


def split_errors(sizes: Sequence[int], report_columns: int, epsilon: float, people: int) -> Errors:
    """Compute the errors of randomized response with ε/k on each of k columns."""
    responses = [RandomizedResponse(size, epsilon / report_columns) for size in sizes]
    slopes = np.array([np.subtract(*response.probabilities) for response in responses])
    column_information = slopes**2 * report_columns / len(sizes)
    pair_information = np.outer(slopes, slopes) ** 2 * pair_share(report_columns, len(sizes))
    return _errors(sizes, column_information, pair_information, people)


def pair_share(k: int, total: int) -> float:
    """Return the share k(k−1)/(m(m−1)) of reports of k of m = `total` columns that have a given pair."""
    return k * (k - 1) / (total * (total - 1)) if total > 1 else 0.0


def _errors(
    sizes: Sequence[int], column_information: Array, pair_information: Array, people: int
) -> Errors:
    """Compute the errors, given the mean information J/n about columns (m,) and pairs (m, m)."""
    dimensions = np.array(sizes, np.float64) - 1
    # A cell has the variance v/K², with K = K_i or K_i K_j, so the K deviations have the sum √v.
    with np.errstate(divide="ignore"):
        one_way = dimensions / (people * column_information)
        interactions = np.outer(dimensions, dimensions) / (people * pair_information)
    two_way_error = _PER_DEVIATION * np.sqrt(one_way[:, None] + one_way + interactions)
    np.fill_diagonal(two_way_error, 0.0)
    return Errors(_PER_DEVIATION * np.sqrt(one_way), two_way_error)


Forms = tuple[tuple[int, ...], ...]

_MAX_LENGTH = 4  # most columns of a form
_MAX_TABLES = 2**12  # most forms of three or of four columns: the estimator stores a table for each
_ITERATIONS = 300  # of the multiplicative algorithm
_INTERACTION_SHARE = 0.2  # first factor of γ
_SIZE_POWER = 0.7  # power of K in a
_MIN_SHARE = 0.01  # forms with a smaller share, times the number of pairs, are left out
_MAX_WEIGHT = 1000  # weight of the most frequent form


def choose_forms(
    sizes: Sequence[int], epsilon: float, pair_weights: Array | None = None
) -> tuple[Forms, tuple[int, ...]]:
    """Choose the forms, as tuples of column indices, and their integer weights.

    Arguments:
        sizes: Number of values of each column.
        epsilon: Privacy loss of one report.
        pair_weights: Symmetric matrix (m, m) of positive weights of the pairs' interactions.

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
    rows = None if pair_weights is None else tuple(map(tuple, pair_weights.tolist()))
    return _choose_forms(tuple(sizes), epsilon, rows)


@lru_cache(maxsize=256)
def _choose_forms(
    sizes: tuple[int, ...], epsilon: float, pair_weights: tuple[tuple[float, ...], ...] | None
) -> tuple[Forms, tuple[int, ...]]:
    """Choose the forms of columns that can all be reported."""
    possible = _possible_forms(sizes)
    pairs = [form for form in possible if len(form) == 2]
    if not pairs:
        return tuple(possible), (1,) * len(possible)
    weights_of_pairs = np.ones(len(pairs))
    if pair_weights is not None:
        weights_of_pairs = np.array([pair_weights[i][j] for i, j in pairs])
    shares = _optimal_shares(sizes, possible, pairs, epsilon, weights_of_pairs)
    floor = _MIN_SHARE / len(pairs)
    shares_of_forms = zip(possible, shares.tolist(), strict=True)
    chosen = {form: share for form, share in shares_of_forms if share > floor}
    covered = {pair for form in chosen for pair in combinations(form, 2)}
    chosen |= {pair: floor for pair in pairs if pair not in covered}
    forms = tuple(form for form in possible if form in chosen)
    tempered = np.sqrt([chosen[form] for form in forms])
    weights = np.maximum(1, np.rint(_MAX_WEIGHT * tempered / tempered.max())).astype(int)
    return forms, tuple(weights.tolist())


def _possible_forms(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Return all sets of columns that may be forms, as increasing column indices."""
    possible: list[tuple[int, ...]] = []
    for length in range(1, min(_MAX_LENGTH, len(sizes)) + 1):
        most = _MAX_TABLES if length > 2 else MOST_FORMS - len(sizes)  # beside the m single columns
        if length == 1 or math.comb(len(sizes), length) <= most:
            possible += [
                form
                for form in combinations(range(len(sizes)), length)
                if math.prod(sizes[column] for column in form) <= MOST_CELLS
            ]
    return possible


def _optimal_shares(
    sizes: Sequence[int],
    forms: Sequence[tuple[int, ...]],
    pairs: Sequence[tuple[int, ...]],
    epsilon: float,
    pair_weights: Array,
) -> Array:
    """Return the shares π (forms,) that minimize the design's sum over pairs with these weights."""
    incidence = Incidence.of(forms, sizes, epsilon)
    effective = np.array(sizes, np.float64) ** _SIZE_POWER
    a = effective * (effective - 1)
    first, second = np.array(pairs).T
    dimensions = np.array([(sizes[i] - 1.0) * (sizes[j] - 1.0) for i, j in pairs])
    gamma = _INTERACTION_SHARE * min(1.0, epsilon / 8) ** 3 + 1 / len(sizes) ** 2 / dimensions
    a_pairs = np.minimum(1.0, gamma * pair_weights) * a[first] * a[second]
    indices = first * len(sizes) + second  # of the pairs in the second result of `information`
    unpaired = np.setdiff1d(np.arange(len(sizes)), pairs)  # columns too large for a pair
    shares = np.full(len(forms), 1 / len(forms))
    for _ in range(_ITERATIONS):
        column_information, all_pair_information = incidence.information(shares)
        pair_information = all_pair_information[indices]
        column_terms, pair_terms = a / column_information, a_pairs / pair_information
        # Derivatives of the errors in their terms, then the negative gradient in J.
        slope = 0.5 / np.sqrt(column_terms[first] + column_terms[second] + pair_terms)
        column_slope = np.bincount(first, slope, len(sizes))
        column_slope += np.bincount(second, slope, len(sizes))
        column_slope[unpaired] = 0.5 / np.sqrt(column_terms[unpaired])
        column_gradient = column_slope * column_terms / column_information
        pair_gradient = np.zeros(all_pair_information.size)
        pair_gradient[indices] = slope * pair_terms / pair_information
        shares = shares * np.sqrt(incidence.gradient(column_gradient, pair_gradient))
        shares = shares / shares.sum()
    return shares


def guess_error(cells: Sequence[int]) -> float:
    """Return the mean of (1 − 1/K)^K over tables of K cells.

    This is the expected total variation between the uniform table and a random one, if all tables are
    equally likely: a probability then has the distribution Beta(1, K − 1).
    """
    return float(np.mean([(1 - 1 / size) ** size for size in cells]))


def min_informative_reports(randomizer: "Randomizer") -> int | None:
    """Return the least number of reports that improve on an estimate without reports.

    Without reports, columns of codes are estimated as uniform. The error of n reports is that of one,
    divided by √n. For points with few coordinates, the planned error must be below that of one report.
    Returns None if no number of reports suffices, and for long vectors, images and candidates.

    Examples:
        >>> from privot.randomizer import Randomizer
        >>> from privot.schema import Schema
        >>> schema = Schema.from_dict({"columns": {"sick": {"kind": "boolean"}}})
        >>> [min_informative_reports(Randomizer.calibrate(schema, epsilon)) for epsilon in (0.1, 1.0)]
        [1021, 12]
    """
    joint, splits = randomizer.joint, randomizer.splits
    if joint is not None:
        guess = guess_error(joint.design.sizes)
        errors = joint_errors(joint.design, joint.epsilon, 1).one_way
    elif splits and all(split.mechanism.takes_codes for split in splits.values()):
        sizes = [randomizer.schema.coded[name].alphabet.size for name in splits]
        guess, epsilon = guess_error(sizes), randomizer.guarantee.epsilon
        errors = split_errors(sizes, randomizer.num_reported, epsilon, 1).one_way
    elif len(splits) == 1:
        ((name, split),) = splits.items()
        return _least_number_of_points(split.mechanism, randomizer.schema.point_column(name).domain)
    else:
        return None
    num_reports = float(np.mean(errors) / guess) ** 2
    return math.ceil(num_reports) if num_reports <= MOST_PEOPLE else None


def _least_number_of_points(mechanism: Mechanism, domain: Domain) -> int | None:
    """Bisect for the least number of reports whose planned error is below that of one report."""
    prior = planned_error(mechanism, domain, 1) if domain.dimension <= 3 else math.nan
    powers = (2**k for k in range(40))  # up to more people than ever lived
    most = next((n for n in powers if planned_error(mechanism, domain, n) < prior), None)
    if most is None:
        return None
    least = most // 2
    while most - least > max(1, most // 100):
        middle = (least + most) // 2
        improved = planned_error(mechanism, domain, middle) < prior
        least, most = (least, middle) if improved else (middle, most)
    return most

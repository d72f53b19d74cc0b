r"""Expectation maximization for a mixture of product distributions, from counts of reports.

In class $z$, of weight $π_z$, columns are independent with probabilities $p_c(v|z)$. In the symbols of
`counts`, a report with factors $a$ has the relative likelihood

$$ L = \sum_z π_z \prod_a \bigl(1 + t_{az}\bigr), \qquad
   t_{az} = (r_a−1) \sum_{\text{cells } v} A_{y_a v} \prod_{c ∈ a} p_c(v_c | z) . $$

The missing data of EM are the class, and for every factor whether its answer reveals a cell, and which
cell. If no factor reveals a cell, class and cells are distributed as without the report, so such reports
are left out of the complete data: the likelihood is the same, and fewer steps are needed. The expected
numbers of people

$$ S_c(v, z) = \sum_{\text{reports}} n\,P(\text{class } z,\ v_c = v \text{ revealed} \mid \text{report}),
   \qquad
   M_z = \sum_{\text{reports}} n\,P(\text{class } z,\ \text{a cell revealed} \mid \text{report}) $$

give the maximizer $p_c(·|z) ∝ S_c(·, z)$, $π ∝ M$; no such step lowers $\sum n \ln L$ (Dempster,
Laird, Rubin 1977; Meng, van Dyk, *The EM algorithm: an old folk-song sung to a fast new tune*, 1997).

The formulas hold for columns in one alphabet. For several alphabets, probabilities of codes are computed
from those of pieces, and expected counts of codes are distributed over pieces (`counts`).

For reports with one factor, the probabilities of cells are first summed over classes, since the
likelihood needs only these sums. So the cost of a report is the size of its set, and the cost of a cell
is the number of classes. Only cells that some report supports are computed: of several columns together
they are few. In the loops, z is a class, t an entry of a row (a cell with A > 0), s the position of a
factor in report i.

**Over-relaxed passes** (`ascend`; Salakhutdinov, Roweis, *Adaptive overrelaxed bound optimization
methods*, 2003) lengthen the EM step on the logarithmic scale, so that a quarter of the passes suffices.
The next pass computes the objective; if it has fallen, the step is undone.

**Curvature** (`curvature`). With one class, and the other queries independent and known, a report's
factor has the relative likelihood $L = 1 + g \sum_k b_k q_k$ in the probabilities q of the codes of one
of its queries. Here g = r − 1, and $b_k$ is the sum of A over the cells of code k, weighted by the
probabilities of the other queries' codes. Likelihoods of several factors are multiplied. So in the codes
of each query the log-likelihood of all reports has

$$ \text{slope } s_k = \sum n\, \frac{g b_k}{L}, \qquad
   \text{information } I_{kl} = \sum n\, \frac{g b_k}{L} \frac{g b_l}{L} . $$
"""

import math
from typing import NamedTuple

import numpy as np

from privot.core.compiled import (
    compiled,
    compiled_reordering,
    compiled_reordering_part,
)
from privot.local.classes.counts import Array, CountTables, Ints, Queries

# Over-relaxation: powers of the ratio by which a plain pass changes a probability.
_FIRST_POWER, _GROWTH, _MAX_POWER = 3.0, 1.4, 8.0
_MAX_RATIO = 1e3  # largest factor by which an over-relaxed step raises a probability
_FLOOR = 1e-300  # least probability whose logarithm is taken
_UNIFORM_SHARE = 0.3  # share of the uniform distribution in the center of random starts


class Expectation(NamedTuple):
    """Result of an E-step."""

    cells: Array  # expected counts of revealed pieces, S (pieces, classes)
    classes: Array  # expected counts of classes, M (classes,)
    log_likelihood: Array  # ln L of each distinct report (reports,)

    def total(self, counts: Array) -> float:
        """Compute $\\sum n \\ln L$ for the counts n (reports,)."""
        return float(counts @ self.log_likelihood)


def expectation(tables: CountTables, probabilities: Array, weights: Array) -> Expectation:
    """Compute expected counts and log-likelihoods in one pass over all reports.

    Arguments:
        tables: The reports.
        probabilities: $p_c(v|z)$ of the pieces of all columns, stacked (pieces, classes).
        weights: π (classes,).
    """
    q = code_probabilities(tables.queries, probabilities)
    likelihood = np.ones(tables.counts.size)
    expected = Expectation(np.zeros_like(q), np.zeros_like(weights), likelihood)
    _add_single(tables, q, weights, expected)
    np.log(likelihood, out=likelihood)  # NumPy's logarithm uses vector registers, Numba's does not
    if tables.multi_report.size:
        _add_multi(tables, q, weights, expected)
    return expected._replace(cells=piece_counts(tables.queries, expected.cells, q, probabilities))


@compiled
def code_probabilities(queries: Queries, p: Array) -> Array:
    """Compute the probabilities q of codes (codes, classes) from those of pieces (pieces, classes)."""
    q = np.zeros((queries.starts.size - 1, p.shape[1]))
    for code in range(q.shape[0]):
        for t in range(queries.starts[code], queries.starts[code + 1]):
            for z in range(p.shape[1]):
                q[code, z] += queries.shares[t] * p[queries.pieces[t], z]
    return q


@compiled
def piece_counts(queries: Queries, expected: Array, q: Array, p: Array) -> Array:
    """Distribute expected counts of codes (codes, classes) over pieces (pieces, classes)."""
    out = np.zeros_like(p)
    for code in range(q.shape[0]):
        for t in range(queries.starts[code], queries.starts[code + 1]):
            piece = queries.pieces[t]
            for z in range(p.shape[1]):
                if q[code, z] > 0.0:
                    part = queries.shares[t] * p[piece, z] / q[code, z]
                    out[piece, z] += expected[code, z] * part
    return out


def em_step(tables: CountTables, p: Array, weights: Array) -> tuple[Array, Expectation]:
    """Return the probabilities (pieces, classes) after an EM step from p, and the expectation at p."""
    expected = expectation(tables, p, weights)
    return normalized(expected.cells, tables), expected


def normalized(table: Array, tables: CountTables) -> Array:
    """Divide every column's block of `table` (pieces, classes) by its sum; uniform if that is 0."""
    sums = np.add.reduceat(table, tables.offsets[:-1], axis=0)
    uniform = np.where(sums > 0, 0, 1 / tables.sizes[:, None])
    return table / np.where(sums > 0, sums, 1)[tables.columns] + uniform[tables.columns]


@compiled_reordering_part
def _cell_products(tables: CountTables, first: int, end: int, q: Array) -> Array:
    """Return the probabilities (cells, classes) of the cells of factors from `first` to before `end`."""
    start = tables.cell_start[first]
    table = np.ones((tables.cell_start[end] - start, q.shape[1]))
    for factor in range(first, end):
        for cell in range(tables.cell_start[factor], tables.cell_start[factor + 1]):
            for place in range(tables.widths[factor]):
                code = tables.cell_codes[cell, place]
                for z in range(q.shape[1]):
                    table[cell - start, z] *= q[code, z]
    return table


@compiled_reordering_part
def _add_to_codes(out: Array, tables: CountTables, first: int, end: int, table: Array) -> None:
    """Add the rows of `table`, as of `_cell_products`, to all codes of their cells in `out`."""
    start = tables.cell_start[first]
    for factor in range(first, end):
        for cell in range(tables.cell_start[factor], tables.cell_start[factor + 1]):
            for place in range(tables.widths[factor]):
                code = tables.cell_codes[cell, place]
                for z in range(table.shape[1]):
                    out[code, z] += table[cell - start, z]


@compiled_reordering
def _add_single(tables: CountTables, q: Array, weights: Array, expected: Expectation) -> None:
    """Add expected counts of reports with one factor to `expected`, and L in place of ln L."""
    values, cells, starts = tables.values, tables.cells, tables.row_start
    mixture = np.empty(len(tables.cell_codes))  # (r−1) times probabilities, summed over classes
    cell_weights = np.zeros(mixture.size)  # sum of n (r−1) A/L
    for factor in range(tables.gains.size):
        if tables.single_start[factor] == tables.single_start[factor + 1]:
            continue
        table = _cell_products(tables, factor, factor + 1, q)
        first, gain = tables.cell_start[factor], tables.gains[factor]
        for cell in range(len(table)):
            total = 0.0
            for z in range(weights.size):
                total += weights[z] * table[cell, z]
            mixture[first + cell] = gain * total
        for i in range(tables.single_start[factor], tables.single_start[factor + 1]):
            report, row = tables.single_report[i], tables.single_rows[i]
            likelihood = 1.0
            for t in range(starts[row], starts[row + 1]):
                likelihood += mixture[cells[t]] * (values[t] if values.size else 1.0)
            expected.log_likelihood[report] = likelihood
            weight = tables.counts[report] * gain / likelihood
            for t in range(starts[row], starts[row + 1]):
                cell_weights[cells[t]] += weight * (values[t] if values.size else 1.0)
        for cell in range(len(table)):
            for z in range(weights.size):
                table[cell, z] *= cell_weights[first + cell] * weights[z]
                expected.classes[z] += table[cell, z]
        _add_to_codes(expected.cells, tables, factor, factor + 1, table)


@compiled_reordering
def _add_multi(tables: CountTables, q: Array, weights: Array, expected: Expectation) -> None:
    """Add the expected counts of reports with several factors to `expected`."""
    num_classes = weights.size
    low, high = tables.multi_factors.min(), tables.multi_factors.max() + 1
    table, first_cell = _cell_products(tables, low, high, q), tables.cell_start[low]
    cell_weights = np.zeros_like(table)
    values, cells, row_start = tables.values, tables.cells, tables.row_start
    widest = 0
    for i in range(tables.multi_report.size):
        widest = max(widest, tables.multi_start[i + 1] - tables.multi_start[i])
    terms, posterior = np.empty((widest, num_classes)), np.empty(num_classes)
    for i in range(tables.multi_report.size):
        report = tables.multi_report[i]
        first, end = tables.multi_start[i], tables.multi_start[i + 1]
        for z in range(num_classes):
            posterior[z] = weights[z]
        # Terms 1 + t of the factors, and their product with π, divided by exp(shift).
        shift = 0.0
        for s in range(first, end):
            factor, row = tables.multi_factors[s], tables.multi_rows[s]
            term = terms[s - first]
            term[:] = 1.0
            for t in range(row_start[row], row_start[row + 1]):
                weight = tables.gains[factor] * (values[t] if values.size else 1.0)
                for z in range(num_classes):
                    term[z] += weight * table[cells[t] - first_cell, z]
            for z in range(num_classes):
                posterior[z] *= term[z]
            largest = posterior.max()
            if largest > 1e100:  # the product over many factors would overflow
                posterior /= largest
                shift += math.log(largest)
        total = posterior.sum()
        expected.log_likelihood[report] = math.log(total) + shift
        silent = math.exp(-shift)  # likelihood that no factor reveals a cell, scaled like posterior
        scale = tables.counts[report] / total
        if scale == 0.0:
            continue
        for z in range(num_classes):
            expected.classes[z] += scale * (posterior[z] - silent * weights[z])
            posterior[z] *= scale
        # Expected counts of revealed cells, divided by the cells' probabilities.
        for s in range(first, end):
            factor, row = tables.multi_factors[s], tables.multi_rows[s]
            term = terms[s - first]
            for z in range(num_classes):
                term[z] = posterior[z] / term[z]
            for t in range(row_start[row], row_start[row + 1]):
                weight = tables.gains[factor] * (values[t] if values.size else 1.0)
                for z in range(num_classes):
                    cell_weights[cells[t] - first_cell, z] += weight * term[z]
    cell_weights *= table
    _add_to_codes(expected.cells, tables, low, high, cell_weights)


def random_start(
    marginals: Array, tables: CountTables, num_classes: int, seed: int, start: int
) -> tuple[Array, Array]:
    """Draw initial probabilities (pieces, classes); return them with equal weights (classes,).

    A single class has the marginals. With more classes, the marginals are mixed with a uniform
    distribution and multiplied by log-normal noise. If columns depend on each other, a marginal
    estimated under independence may be 0, which EM could not raise.
    """
    weights = np.full(num_classes, 1 / num_classes)
    if num_classes == 1:
        return marginals, weights
    rng = np.random.default_rng([seed, num_classes, start])
    noise = np.exp(rng.standard_normal((len(marginals), num_classes)))
    uniform = 1 / tables.sizes[tables.columns, None]
    center = (1 - _UNIFORM_SHARE) * marginals + _UNIFORM_SHARE * uniform
    return normalized(center * noise, tables), weights


def ascend(
    tables: CountTables, prior: Array, p: Array, weights: Array, strength: float, passes: int
) -> tuple[Array, Array]:
    """Run EM passes; return probabilities (pieces, classes) and weights (classes,).

    All passes but the last are over-relaxed with growing powers. A step that lowers the objective is
    replaced by the plain step from the same point, and followed by a plain step. The pseudo-counts of
    every class are `strength` times `prior` (pieces, 1).
    """
    best, power, plain_step = -np.inf, _FIRST_POWER, (p, weights)
    prior_counts = strength * prior
    for passes_left in range(passes, 0, -1):
        expected = expectation(tables, p, weights)
        value = expected.total(tables.counts) + _log_prior(prior_counts, p, weights)
        if value < best:
            (p, weights), best, power = plain_step, -np.inf, 1.0
            if passes_left > 1:
                continue
            expected = expectation(tables, p, weights)
        best = value
        people = expected.classes + 1.0  # with one pseudo-count per class
        plain_step = normalized(expected.cells + prior_counts, tables), people / people.sum()
        if passes_left == 1 or power == 1.0:
            (p, weights), power = plain_step, _FIRST_POWER
            continue
        p = normalized(_over_relaxed(p, plain_step[0], power), tables)
        weights = _over_relaxed(weights, plain_step[1], power)
        weights = weights / weights.sum()
        power = min(power * _GROWTH, _MAX_POWER)
    return p, weights


def _log_prior(counts: Array, p: Array, weights: Array) -> float:
    """Compute the log density of the prior with pseudo-counts (pieces, 1), up to a constant."""
    logs = np.log(np.maximum(p, _FLOOR)).sum(axis=1)
    return float(counts[:, 0] @ logs + np.log(np.maximum(weights, _FLOOR)).sum())


def _over_relaxed(old: Array, new: Array, power: float) -> Array:
    """Return $x (x'/x)^{η}$, with the step from x to x' lengthened on the logarithmic scale."""
    ratio = np.divide(new, old, out=np.ones_like(old), where=old > 0)
    return np.asarray(old * np.minimum(ratio**power, _MAX_RATIO))


class Curvature(NamedTuple):
    """Slope and information of the log-likelihood in the probabilities of all queries' codes."""

    slope: Array  # s of each code (codes,)
    information: Array  # I of each code with the codes of its query, padded (codes, largest query)


def curvature(tables: CountTables, q: Array) -> Curvature:
    """Expand the log-likelihood to second order around the probabilities q of all codes (codes,)."""
    factor_of_row, people_of_row = _answers(tables)
    largest_query = int(tables.queries.sizes.max(initial=1))
    total = Curvature(np.zeros(len(q)), np.zeros((len(q), largest_query)))
    query_of_code = np.repeat(np.arange(tables.queries.sizes.size), tables.queries.sizes)
    _add_curvature(tables, q, factor_of_row, people_of_row, query_of_code, total)
    return total


def _answers(tables: CountTables) -> tuple[Ints, Array]:
    """Return the factor of every row, a distinct answer, and the number of people who gave it."""
    rows = tables.row_start.size - 1
    factor_of_row, people_of_row = np.full(rows, -1), np.zeros(rows)
    single_factors = np.repeat(np.arange(tables.gains.size), np.diff(tables.single_start))
    factor_of_row[tables.single_rows] = single_factors
    np.add.at(people_of_row, tables.single_rows, tables.counts[tables.single_report])
    factor_of_row[tables.multi_rows] = tables.multi_factors
    people = np.repeat(tables.counts[tables.multi_report], np.diff(tables.multi_start))
    np.add.at(people_of_row, tables.multi_rows, people)
    return factor_of_row, people_of_row


@compiled
def _add_curvature(
    tables: CountTables,
    q: Array,
    factor_of_row: Ints,
    people_of_row: Array,
    query_of_code: Ints,
    total: Curvature,
) -> None:
    """Add the slopes and the information of all answers to `total`."""
    offsets, values = tables.queries.offsets, tables.values
    slopes = np.zeros(q.size)  # g b of the current answer; set to 0 after it
    for row in range(factor_of_row.size):
        factor, start, stop = factor_of_row[row], tables.row_start[row], tables.row_start[row + 1]
        if people_of_row[row] == 0.0 or start == stop:
            continue
        width = tables.widths[factor]
        likelihood = 1.0
        for t in range(start, stop):
            weight = tables.gains[factor] * (values[t] if values.size else 1.0)
            codes, product = tables.cell_codes[tables.cells[t]], weight
            for place in range(width):
                product *= q[codes[place]]
            likelihood += product
            for place in range(width):
                others = weight
                for other in range(width):
                    if other != place:
                        others *= q[codes[other]]
                slopes[codes[place]] += others
        codes = tables.cell_codes[tables.cells[start]]
        for place in range(width):
            query = query_of_code[codes[place]]
            first, end = offsets[query], offsets[query + 1]
            for k in range(first, end):
                if slopes[k] != 0.0:
                    part = people_of_row[row] * slopes[k] / likelihood
                    total.slope[k] += part
                    for other in range(first, end):
                        total.information[k, other - first] += part * slopes[other] / likelihood
            slopes[first:end] = 0.0

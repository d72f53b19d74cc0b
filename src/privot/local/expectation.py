r"""The E-step: what reports say of a mixture of product distributions.

In class $z$, of weight $π_z$, columns are independent with probabilities $p_c(v|z)$. A report of factors
$a$ (`report_counts`) has the relative likelihood

$$ L = \sum_z π_z \prod_a \bigl(1 + t_{az}\bigr), \qquad
   t_{az} = (r_a−1) \sum_{\text{cells } v} A_{y_a v} \prod_{c ∈ a} p_c(v_c | z) . $$

EM treats two things as missing: the class, and for every factor whether the device told a cell (and
which). Where no factor told anything, class and cells have their prior law whatever the parameters, so
this part of the data is left out: the same likelihood, completed by less, climbs in fewer steps. The
expected numbers of people

$$ S_c(v, z) = \sum_{\text{reports}} n\,P(\text{class } z,\ v_c = v \text{ told} \mid \text{report}),
   \qquad
   M_z = \sum_{\text{reports}} n\,P(\text{class } z,\ \text{anything told} \mid \text{report}) $$

give the maximizer $p_c(·|z) ∝ S_c(·, z)$, $π ∝ M$; every such step raises $\sum n \ln L$ (Dempster,
Laird, Rubin 1977; Meng, van Dyk, *The EM algorithm: an old folk-song sung to a fast new tune*, 1997).

With one factor the classes are summed before the report is looked at: its likelihood needs only the
cells' total probability, so reports cost their set's size and cells cost the classes, never both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privot.local.report_counts import Array, CountTables

Ints = NDArray[np.int64]
# Sums may be reordered so that they vectorize; the order is the same in every run on a machine.
_FAST = {"reassoc", "contract", "nsz"}


@dataclass(frozen=True, eq=False)
class Expectation:
    """Expected counts of told cells (all categories, classes) and of classes, and ln L a report."""

    cells: Array
    classes: Array
    log_likelihood: Array

    def total(self, counts: Array) -> float:
        """$\\sum n \\ln L$."""
        return float(counts @ self.log_likelihood)


def expectation(tables: CountTables, probabilities: Array, weights: Array) -> Expectation:
    """One pass over all reports.

    Args:
        tables: the reports.
        probabilities: $p_c(v|z)$ of all columns end to end, shape (categories, classes).
        weights: π, shape (classes,).
    """
    cells, classes = np.zeros_like(probabilities), np.zeros_like(weights)
    logs = np.zeros(tables.counts.size)
    _alone(
        tables.sizes, tables.offsets, tables.factor_columns, tables.factor_start, tables.gains,
        tables.row_start, tables.cells, tables.values, tables.alone_start, tables.alone_rows,
        tables.alone_report, tables.counts, probabilities, weights, cells, classes, logs,
    )  # fmt: skip
    if tables.several_report.size:
        _several(
            tables.sizes, tables.offsets, tables.factor_columns, tables.factor_start, tables.gains,
            tables.row_start, tables.cells, tables.values, tables.several_start,
            tables.several_factors, tables.several_rows, tables.several_report, tables.counts,
            probabilities, weights, cells, classes, logs,
        )  # fmt: skip
    return Expectation(cells, classes, logs)


@njit(cache=True, nogil=True, fastmath=_FAST)
def _outer(out: Array, columns: Ints, sizes: Ints, offsets: Ints, p: Array) -> None:
    """Multiply row 0 of `out` by the columns' probabilities: their cells in C order, from the back."""
    rows = 1
    for j in columns:
        for row in range(rows - 1, -1, -1):
            for v in range(sizes[j] - 1, -1, -1):
                for z in range(p.shape[1]):
                    out[row * sizes[j] + v, z] = out[row, z] * p[offsets[j] + v, z]
        rows *= sizes[j]


@njit(cache=True, nogil=True, fastmath=_FAST)
def _scatter(out: Array, table: Array, columns: Ints, sizes: Ints, offsets: Ints) -> None:
    """Add the one-way sums of `table` (cells, classes) to the columns' categories."""
    for row in range(table.shape[0]):
        rest = row
        for place in range(columns.size - 1, -1, -1):
            j = columns[place]
            category = offsets[j] + rest % sizes[j]
            rest //= sizes[j]
            for z in range(table.shape[1]):
                out[category, z] += table[row, z]


@njit(cache=True, nogil=True, fastmath=_FAST)
def _alone(
    sizes: Ints, offsets: Ints, factor_columns: Ints, factor_start: Ints, gains: Array,
    row_start: Ints, cells: NDArray[np.int32], values: Array, alone_start: Ints, alone_rows: Ints,
    alone_report: Ints, counts: Array, p: Array, weights: Array,
    told: Array, classes: Array, logs: Array,
) -> None:  # fmt: skip
    """Reports of one factor: mixed cell probabilities forward, weights of the cells backward."""
    num_classes = weights.size
    for factor in range(gains.size):
        first, end = alone_start[factor], alone_start[factor + 1]
        if first == end:
            continue
        columns = factor_columns[factor_start[factor] : factor_start[factor + 1]]
        last, front = columns[-1], columns[:-1]
        width, rows = sizes[last], 1
        for j in front:
            rows *= sizes[j]
        # The last column enters as a matrix product with the table of all columns before it.
        table = np.empty((rows, num_classes))
        table[0] = weights
        _outer(table, front, sizes, offsets, p)
        tail = p[offsets[last] : offsets[last] + width]
        mixed = np.empty(rows * width)
        for row in range(rows):
            for v in range(width):
                total = 0.0
                for z in range(num_classes):
                    total += table[row, z] * tail[v, z]
                mixed[row * width + v] = total
        back = np.zeros(rows * width)
        for i in range(first, end):
            n = counts[alone_report[i]]
            start, stop = row_start[alone_rows[i]], row_start[alone_rows[i] + 1]
            total = 0.0
            if values.size:
                for t in range(start, stop):
                    total += values[t] * mixed[cells[t]]
            else:
                for t in range(start, stop):
                    total += mixed[cells[t]]
            ratio = 1.0 + gains[factor] * total
            logs[alone_report[i]] = math.log(ratio)
            if n == 0.0:
                continue
            weight = n * gains[factor] / ratio
            if values.size:
                for t in range(start, stop):
                    back[cells[t]] += weight * values[t]
            else:
                for t in range(start, stop):
                    back[cells[t]] += weight
        sums = np.zeros((rows, num_classes))
        for row in range(rows):
            for v in range(width):
                weight = back[row * width + v]
                if weight == 0.0:
                    continue
                for z in range(num_classes):
                    part = weight * tail[v, z]
                    sums[row, z] += part
                    told[offsets[last] + v, z] += part * table[row, z]
            for z in range(num_classes):
                sums[row, z] *= table[row, z]
                classes[z] += sums[row, z]
        _scatter(told, sums, front, sizes, offsets)


@njit(cache=True, nogil=True, fastmath=_FAST)
def _several(
    sizes: Ints, offsets: Ints, factor_columns: Ints, factor_start: Ints, gains: Array,
    row_start: Ints, cells: NDArray[np.int32], values: Array, several_start: Ints,
    several_factors: Ints, several_rows: Ints, several_report: Ints, counts: Array,
    p: Array, weights: Array, told: Array, classes: Array, logs: Array,
) -> None:  # fmt: skip
    """Reports of several factors: the class couples them, so every report holds all classes."""
    num_classes = weights.size
    used = np.zeros(gains.size, np.bool_)
    used[several_factors] = True
    place = np.zeros(gains.size + 1, np.int64)
    for factor in range(gains.size):
        rows = 0
        if used[factor]:
            rows = 1
            for j in factor_columns[factor_start[factor] : factor_start[factor + 1]]:
                rows *= sizes[j]
        place[factor + 1] = place[factor] + rows
    table = np.ones((place[-1], num_classes))
    for factor in range(gains.size):
        if used[factor]:
            columns = factor_columns[factor_start[factor] : factor_start[factor + 1]]
            _outer(table[place[factor] : place[factor + 1]], columns, sizes, offsets, p)
    back = np.zeros_like(table)
    widest = 0
    for i in range(several_report.size):
        widest = max(widest, several_start[i + 1] - several_start[i])
    terms, posterior = np.empty((widest, num_classes)), np.empty(num_classes)
    for i in range(several_report.size):
        first, end = several_start[i], several_start[i + 1]
        posterior[:] = weights
        shift = 0.0
        for s in range(first, end):
            factor = several_factors[s]
            term = terms[s - first]
            term[:] = 1.0
            for t in range(row_start[several_rows[s]], row_start[several_rows[s] + 1]):
                weight = gains[factor] * (values[t] if values.size else 1.0)
                for z in range(num_classes):
                    term[z] += weight * table[place[factor] + cells[t], z]
            for z in range(num_classes):
                posterior[z] *= term[z]
            largest = posterior.max()
            if largest > 1e100:  # the product over many factors would overflow
                posterior /= largest
                shift += math.log(largest)
        total = posterior.sum()
        logs[several_report[i]] = math.log(total) + shift
        silent = math.exp(-shift)
        scale = counts[several_report[i]] / total
        if scale == 0.0:
            continue
        for z in range(num_classes):
            classes[z] += scale * (posterior[z] - silent * weights[z])
            posterior[z] *= scale
        for s in range(first, end):
            factor = several_factors[s]
            term = terms[s - first]
            for z in range(num_classes):
                term[z] = posterior[z] / term[z]
            for t in range(row_start[several_rows[s]], row_start[several_rows[s] + 1]):
                weight = gains[factor] * (values[t] if values.size else 1.0)
                for z in range(num_classes):
                    back[place[factor] + cells[t], z] += weight * term[z]
    for factor in range(gains.size):
        if used[factor]:
            columns = factor_columns[factor_start[factor] : factor_start[factor + 1]]
            part = back[place[factor] : place[factor + 1]]
            part *= table[place[factor] : place[factor + 1]]
            _scatter(told, part, columns, sizes, offsets)

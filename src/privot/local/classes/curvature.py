r"""What reports say of each question apart, the others taken as independent and known: to second order.

A factor's report has the relative likelihood $1 + g \sum_k b_k q_k$ in the probabilities q of one of its
questions' codes, where $b_k$ sums its cells of code k, weighted by the probabilities of the other
questions. So around q the log-likelihood of all reports has, by each question's codes,

$$ \text{slope } s_k = \sum n\, \frac{g b_k}{L}, \qquad
   \text{information } I_{kl} = \sum n\, \frac{g b_k}{L} \frac{g b_l}{L} . $$

With one class, the likelihood of several factors is the product of theirs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privot.compiled import compiled
from privot.local.classes.count_tables import CountTables
from privot.local.classes.questions import Array, Ints


class Curvature(NamedTuple):
    """Slopes of all codes, numbered through, and their information within their question.

    Args:
        slope: of each code (codes,).
        information: with the codes of its question, from its first one on, (codes, largest question).
    """

    slope: Array
    information: Array


def curvature(tables: CountTables, q: Array) -> Curvature:
    """Around the probabilities q of all codes (codes,)."""
    factor_of_row, counts = _rows(tables)
    most = int(tables.asked.sizes.max(initial=1))
    found = Curvature(np.zeros(len(q)), np.zeros((len(q), most)))
    _add_up(tables, q, factor_of_row, counts, found)
    return found


def _rows(tables: CountTables) -> tuple[Ints, Array]:
    """The factor of every distinct answer, and how many people gave it."""
    rows = tables.row_start.size - 1
    factor, counts = np.full(rows, -1), np.zeros(rows)
    alone = np.repeat(np.arange(tables.gains.size), np.diff(tables.alone_start))
    factor[tables.alone_rows] = alone
    np.add.at(counts, tables.alone_rows, tables.counts[tables.alone_report])
    factor[tables.several_rows] = tables.several_factors
    sent = np.repeat(tables.counts[tables.several_report], np.diff(tables.several_start))
    np.add.at(counts, tables.several_rows, sent)
    return factor, counts


@compiled
def _add_up(
    tables: CountTables, q: Array, factor_of_row: Ints, counts: Array, found: Curvature
) -> None:
    sizes, offsets, values = tables.asked.sizes, tables.asked.offsets, tables.values
    told = np.zeros(q.size)
    digits = np.zeros(tables.factor_questions.size, np.int64)
    for row in range(factor_of_row.size):
        factor = factor_of_row[row]
        if counts[row] == 0.0:
            continue
        start, stop = tables.factor_start[factor], tables.factor_start[factor + 1]
        ratio = 1.0
        for t in range(tables.row_start[row], tables.row_start[row + 1]):
            weight = tables.gains[factor] * (values[t] if values.size else 1.0)
            rest, product = tables.cells[t], weight
            for place in range(stop - 1, start - 1, -1):
                question = tables.factor_questions[place]
                digits[place] = offsets[question] + rest % sizes[question]
                rest //= sizes[question]
                product *= q[digits[place]]
            ratio += product
            for place in range(start, stop):
                others = weight
                for other in range(start, stop):
                    if other != place:
                        others *= q[digits[other]]
                told[digits[place]] += others
        for place in range(start, stop):
            question = tables.factor_questions[place]
            first, end = offsets[question], offsets[question + 1]
            for k in range(first, end):
                if told[k] != 0.0:
                    part = counts[row] * told[k] / ratio
                    found.slope[k] += part
                    for other in range(first, end):
                        found.information[k, other - first] += part * told[other] / ratio
            told[first:end] = 0.0

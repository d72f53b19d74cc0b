r"""How an additive score goes with a column, by reports alone: no classifier sees a record.

A classifier or a regression that is linear in the codes of columns $c$ scores a record x by $s(x) =
\sum_c w_c(x_c)$. With f(x) a function of the column to tell, 0 where that is missing, and $κ(x)$ 1
where it is there, all of

$$ E[s f] = \sum_c E[w_c f] , \quad E[s κ] , \quad E[s^2] = \sum_{c,d} E[w_c w_d] , \quad E[s] , \quad
   E[f] , \quad E[f^2] , \quad E[κ] $$

are sums of means over single columns and pairs of them, which reports tell without a model
(`estimates`). A report may answer several of these pairs; each person's sum is one number, so that the
covariance of all of them together is that of people's sums, and nothing is taken for independent.

Of columns asked in alphabets that are not the schema's, a code stands for the model's mean over what
it covers. Pairs that nobody was asked together have the model's mean.

Privacy review: a function of a release, and of a model of it: post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from privot.evaluation.estimates import Estimate, cells_of, moments
from privot.evaluation.heard import Asked, Heard, Questions, Source
from privot.local.classes.product_mixture import LatentClasses
from privot.schema import Array

SCORE_TARGET, SCORE_KNOWN, SCORE_SQUARE, SCORE, TARGET, TARGET_SQUARE, KNOWN = range(7)
Columns = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Scores:
    """G additive scores, each with a function of one column that it is to tell.

    Arguments:
        column: Which is told.
        weights: By column, of its atoms (a, G); at `column`, the functions f.
        known: Where the column to tell is not missing (a,).
    """

    column: int
    weights: tuple[Array, ...]
    known: Array

    def terms(self, columns: Columns) -> Array:
        """What the atoms of one or two columns add to each of the seven moments (7, a[, b], G)."""
        first = self.weights[columns[0]]
        if len(columns) == 1:
            out = np.zeros((7, *first.shape))
            if columns[0] == self.column:
                known = np.broadcast_to(self.known[:, None], first.shape)
                out[TARGET], out[TARGET_SQUARE], out[KNOWN] = first, first**2, known
            else:
                out[SCORE], out[SCORE_SQUARE] = first, first**2
            return out
        second = self.weights[columns[1]]
        out = np.zeros((7, len(first), *second.shape))
        product = first[:, None] * second
        if self.column in columns:
            known = (self.known[:, None, None] if columns[0] == self.column else
                     self.known[:, None])  # fmt: skip
            other = second if columns[0] == self.column else first[:, None]
            out[SCORE_TARGET], out[SCORE_KNOWN] = product, known * other
        else:
            out[SCORE_SQUARE] = 2 * product
        return out


def believed(law: LatentClasses, scores: Scores) -> Array:
    """The moments (7, G) of a law of atoms."""
    every = [_mean(law, scores, columns) for columns in _all(len(scores.weights))]
    total: Array = np.sum(every, axis=0)
    return total


def heard_of(heard: Heard, law: LatentClasses, scores: Scores) -> Estimate:
    """The moments (7 G,) by reports, with their covariance, and how many people reported."""
    size = 7 * scores.weights[0].shape[1]
    asked: dict[Columns, list[Questions]] = {}
    for questions in heard.pairs:
        asked.setdefault(tuple(sorted(heard.columns(questions))), []).append(questions)
    functions = [np.zeros((int(np.prod(source.shape)), size)) for source in heard.sources]
    mean, spread = np.zeros(size), np.zeros((size, size))
    for columns in _all(len(scores.weights)):
        if columns not in asked:
            mean += _mean(law, scores, columns).ravel()
            continue
        terms, shares = scores.terms(columns), law.marginal(columns)
        shared = _weighed(heard, asked[columns])
        for questions in {each for _, each, _ in shared}:
            ordered = heard.columns(questions) == columns
            by_code = _by_code([heard.asked[q] for q in questions], terms, shares, ordered)
            for number, own, weight in shared:
                if own == questions:
                    places = cells_of(heard.sources[number], questions)
                    functions[number] += weight * by_code[places]
    for source, g in zip(heard.sources, functions, strict=True):
        if g.any():
            part, covariance = moments(source, g, full=True)
            mean, spread = mean + part, spread + covariance
    return Estimate(mean, spread, int(sum(source.counts.sum() for source in heard.sources)))


def _all(number: int) -> list[Columns]:
    return [*combinations(range(number), 1), *combinations(range(number), 2)]


def _mean(law: LatentClasses, scores: Scores, columns: Columns) -> Array:
    shares, terms = law.marginal(columns), scores.terms(columns)
    out: Array = np.tensordot(terms, shares, (range(1, terms.ndim - 1), range(shares.ndim)))
    return out


def _weighed(heard: Heard, asked: Sequence[Questions]) -> list[tuple[int, Questions, float]]:
    """Which sources answer any of some questions about the same columns, and what each counts."""
    found: list[tuple[int, Questions, float]] = []
    for questions in asked:
        size = float(np.prod([heard.asked[q].size for q in questions]))
        for number, source in enumerate(heard.sources):
            if set(questions) <= set(source.questions):
                found.append((number, questions, _weight(source, size)))
    total = sum(weight for _, _, weight in found)
    return [(number, questions, weight / total) for number, questions, weight in found]


def _weight(source: Source, size: float) -> float:
    """People over the variance that the mechanism alone has."""
    cells = float(np.prod(source.shape))
    return float(source.counts.sum() / (source.noise * cells / size + 1 / size))


def _by_code(asked: Sequence[Asked], terms: Array, shares: Array, ordered: bool) -> Array:
    """Means (cells, 7 G) of terms over what the codes of one or two questions cover."""
    if not ordered:
        terms, shares = np.swapaxes(terms, 1, 2), shares.T
    total = terms * shares[..., None]
    for axis, each in enumerate(asked):
        covers = (np.arange(each.size)[:, None] == each.codes) * 1.0
        total = np.moveaxis(np.tensordot(covers, total, (1, axis + 1)), 0, axis + 1)
        shares = np.moveaxis(np.tensordot(covers, shares, (1, axis)), 0, axis)
    means = total / np.maximum(shares, 1e-300)[..., None]
    return np.moveaxis(means, 0, -2).reshape(shares.size, -1)

r"""What reports alone say of shares, whatever a model believes: unbiased estimates, and their error.

A report of a cell v among K, of the set S that it supports, supports the true cell with probability p
and any given other with q. So for any function g of the cell

$$ h(S) = \frac{\sum_{v ∈ S} g(v) − q \sum_v g(v)}{p − q} , \qquad E[h(S) | v] = g(v) , $$

exactly, for each person by itself. The mean of h over people is an unbiased estimate of the
population's mean of g, and reports are independent, so its covariance is that of h over the people,
divided by their number: both hold whatever the population is like, and use no model. Reports of a table
of probabilities have the same with a left inverse of the table; answers of one report to several
questions are independent given the record, so the product of their h is unbiased for the product of
their g.

Combinations of questions that hold those asked for are put together, each weighted by the number of its
people over the variance that its mechanism alone has: public numbers, so that the sum is unbiased, too.

With 90 % an interval of 1.645 standard errors holds the population's value; the estimate is nearly
normal from some hundred people on. An estimate may be negative: shares are cut to [0, 1] where they are
shown.

Privacy review: functions of a release alone: post-processing, under the release's guarantee.

References:
    Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation* (2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from privot.evaluation.heard import Heard, Questions, Source
from privot.schema import Array

Z = 1.6448536269514722  # of a normal law, 5 % lie above
_AT_ONCE = 2**22


@dataclass(frozen=True)
class Interval:
    """An estimate from the reports, and where the population's value lies, with 90 %."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, variance: float, least: float, most: float) -> Interval:
        """Of a nearly normal estimate of a number between `least` and `most`."""
        half = Z * float(np.sqrt(max(variance, 0.0)))
        ends = np.clip([estimate, estimate - half, estimate + half], least, most)
        return cls(*map(float, ends))

    def holds(self, value: float) -> bool:
        """Whether a value lies inside."""
        return self.low <= value <= self.high


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates (G,) of means, their covariance (G, G) or variances (G,), and from how many people."""

    mean: Array
    spread: Array
    people: int

    @property
    def variance(self) -> Array:
        """Of each mean (G,)."""
        return self.spread if self.spread.ndim == 1 else np.diag(self.spread)


def estimate(
    heard: Heard, questions: Questions, g: Array | None = None, *, full: bool = False
) -> Estimate:
    """Means of functions of the codes of `questions`, from all reports that answer them.

    Arguments:
        heard: The reports.
        questions: In increasing order; the last one's code is fastest in a cell's number.
        g: Functions (cells, G); by default an indicator of every cell, so that means are shares.
        full: Whether to estimate covariances, rather than variances alone.
    """
    parts, weights, people = [], [], 0
    for source in heard.sources:
        if not set(questions) <= set(source.questions):
            continue
        cells = cells_of(source, questions)
        columns = scipy.sparse.csr_array((np.ones(cells.size), (np.arange(cells.size), cells)))
        size = columns.shape[1]
        functions = columns if g is None else columns @ g
        parts.append(moments(source, functions, full))
        count = source.counts.sum()
        weights.append(count / (source.noise * cells.size / size + 1 / size))
        people += int(count)
    share = np.array(weights) / np.sum(weights)
    mean = sum(w * part[0] for w, part in zip(share, parts, strict=True))
    spread = sum(w**2 * part[1] for w, part in zip(share, parts, strict=True))
    return Estimate(np.asarray(mean), np.asarray(spread), people)


def pooled(found: Sequence[Estimate]) -> Estimate:
    """Estimates of the same means from questions in several alphabets, weighted by their precision."""
    precision = np.array([1 / max(float(each.variance.mean()), 1e-30) for each in found])
    share = precision / precision.sum()
    mean = sum(w * each.mean for w, each in zip(share, found, strict=True))
    spread = sum(w**2 * each.spread for w, each in zip(share, found, strict=True))
    return Estimate(np.asarray(mean), np.asarray(spread), sum(each.people for each in found))


def cells_of(source: Source, questions: Questions) -> NDArray[np.int64]:
    """The cell of `questions` that each cell of a source has."""
    codes = np.indices(source.shape).reshape(len(source.shape), -1)
    place = {question: i for i, question in enumerate(source.questions)}
    chosen = [place[question] for question in questions]
    shape = tuple(source.shape[i] for i in chosen)
    return np.ravel_multi_index(tuple(codes[i] for i in chosen), shape)


def moments(source: Source, g: Any, full: bool) -> tuple[Array, Array]:
    """Mean of h over a source's people, and the (co)variance of that mean."""
    count, step = source.counts.sum(), max(1, _AT_ONCE // max(source.shape[0], g.shape[1]))
    first: Any = 0.0
    second: Any = 0.0
    for start in range(0, len(source.counts), step):
        rows = slice(start, start + step)
        h, n = source.values(g, rows), source.counts[rows]
        first = first + n @ h
        second = second + ((h * n[:, None]).T @ h if full else n @ h**2)
    mean = first / count
    square = np.outer(mean, mean) if full else mean**2
    return mean, (second / count - square) / max(count - 1, 1)

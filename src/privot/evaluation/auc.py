r"""The area under the receiver operating characteristic, of two classes or more.

For one class against the rest it is the chance that a record of the class gets a higher score than a
record of the rest, ties counting half (Mann and Whitney's U):
$$\mathrm{AUC} = \frac{R_1 − n_1 (n_1 + 1)/2}{n_1 n_0},$$
with $R_1$ the sum of the ranks of the class's $n_1$ records. Scores that know nothing get ½. Of several
classes, each stands against the rest and counts by its share, so that a rare class cannot make a loud
number; of two, both give the same.

References:
    Hand, Till, *A simple generalisation of the area under the ROC curve* (2001).
    Fawcett, *An introduction to ROC analysis* (2006), for the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


@dataclass(frozen=True)
class ClassifierScore:
    """A classifier's AUC on real records: trained on synthetic records, and on real ones."""

    classifier: str
    synthetic: float
    real: float


@dataclass(frozen=True)
class Prediction:
    """How well one column can be told from the others, by classifiers trained on either table.

    Arguments:
        target: The column that is told.
        num_synthetic: Synthetic records trained on.
        num_real: Real records tested on; each real-trained classifier saw four fifths of them, and was
            tested on the fifth it had not seen.
        scores: One a classifier.
    """

    target: str
    num_synthetic: int
    num_real: int
    scores: tuple[ClassifierScore, ...]


def area_under_curve(truth: NDArray[np.int64], scores: NDArray[np.float64]) -> float:
    """AUC of scores (n, K) for classes `truth` (n,) of 0 … K−1; ½ if there is only one class.

    Examples:
        >>> area_under_curve(np.array([0, 0, 1]), np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]]))
        1.0
    """
    counts = np.bincount(truth, minlength=scores.shape[1])
    areas, weights = [], []
    for k in np.flatnonzero((counts > 0) & (counts < len(truth))):
        ranks = rankdata(scores[:, k])[truth == k].sum()
        areas.append(
            (ranks - counts[k] * (counts[k] + 1) / 2) / (counts[k] * (len(truth) - counts[k]))
        )
        weights.append(counts[k])
    return float(np.average(areas, weights=weights)) if areas else 0.5

"""The exact loss over all pairs of sequences of one bit, by enumeration: no theorem is used."""

import itertools
from functools import reduce

import numpy as np


def sequences(waves):
    """All sequences of one bit (n, waves)."""
    return np.array([*itertools.product((0, 1), repeat=waves)])


def product_law(logs):
    """Log-probabilities (n, outputs) of all outputs, from those of the parts, each (n, outputs)."""
    return reduce(lambda a, b: (a[:, :, None] + b[:, None, :]).reshape(len(a), -1), logs)


def loss(law):
    """The largest log-ratio of any output's probability between any two rows."""
    with np.errstate(invalid="ignore"):
        possible = law[:, law.max(0) > -np.inf]
        return float((possible.max(0) - possible.min(0)).max())

"""What memoization loses, against enumeration over all sequences."""

import math

import numpy as np
import pytest

from privot import PrivotError
from privot.waves import memoization_loss
from waves.enumeration import loss, product_law, sequences


def response(epsilon):
    keep = 1 / (1 + math.exp(-epsilon))
    return np.array([[keep, 1 - keep], [1 - keep, keep]])


def law(waves, permanent, fresh):
    """Log-probabilities of all reports of all sequences: summed over both remembered answers."""
    every, keep, reported = sequences(waves), response(permanent), response(fresh)
    total = np.zeros((len(every), 2**waves))
    for zero in (0, 1):
        for one in (0, 1):
            remembered = np.where(every, one, zero)
            logs = product_law([np.log(reported[remembered[:, t]]) for t in range(waves)])
            total += keep[0, zero] * keep[1, one] * np.exp(logs)
    return np.log(total)


@pytest.mark.parametrize("waves", [1, 2, 5, 8])
@pytest.mark.parametrize(("permanent", "fresh"), [(2.0, 1.0), (0.5, 2.0)])
def test_the_loss_is_that_of_all_pairs_of_sequences(waves, permanent, fresh):
    found = memoization_loss(waves, permanent, fresh)
    assert math.isclose(found, loss(law(waves, permanent, fresh)), rel_tol=1e-9)


def test_it_grows_beyond_what_is_claimed():
    """And beyond what three sequences show: a bit that alternates, against two that never change."""
    shown = {8: 3.75, 10: 4.75, 12: 5.75}
    found = {waves: memoization_loss(waves, 2.0, 1.0) for waves in shown}
    every = sequences(8)
    few = np.array([[0] * 8, [1] * 8, [0, 1] * 4])
    rows = [int(np.flatnonzero((every == each).all(axis=1))[0]) for each in few]
    assert math.isclose(loss(law(8, 2.0, 1.0)[rows]), shown[8], abs_tol=0.005)
    assert all(found[waves] > shown[waves] + 0.8 for waves in shown)
    assert found[8] > 2 * 2.0
    assert memoization_loss(2, 2.0) == math.inf


def test_impossible_arguments_are_refused():
    for arguments in ((0, 1.0), (3, -1.0), (3, 1.0, 0.0)):
        with pytest.raises(PrivotError):
            memoization_loss(*arguments)

"""A reader of shuffled waves who ends the survey when it looks worst for a person."""

import numpy as np

from privot.privacy.distributed import ReportLaw
from privot.privacy.shuffling import _batch_loss, shuffled_epsilon
from privot.privacy.slice_losses import composed_epsilon

WAVES, DELTA = 9, 1e-6


def excess(epsilon, losses):
    return np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0)


def test_who_stops_when_it_looks_worst_spends_more_than_delta():
    """Backward induction over sums of losses: at most δ if the number of waves is fixed, else 5 δ."""
    law, negligible = ReportLaw.worst(2.0), DELTA / 1000 / WAVES
    highest = shuffled_epsilon(law, 200, negligible).epsilon
    loss = _batch_loss(law, 200, highest, negligible)
    reach = len(loss.masses) // 2
    sums = loss.step * np.arange(-WAVES * reach, WAVES * reach + 1)
    stated = [composed_epsilon(loss, waves, DELTA) for waves in range(1, WAVES + 1)]

    def one_wave_earlier(value):
        padded = np.pad(value, reach, mode="edge")
        return np.convolve(padded, loss.masses[::-1], "valid") + loss.infinite

    fixed = stopped = excess(stated[-1], sums)
    for epsilon in reversed(stated[:-1]):
        fixed = one_wave_earlier(fixed)
        stopped = np.maximum(excess(epsilon, sums), one_wave_earlier(stopped))
    spent = [one_wave_earlier(each)[WAVES * reach] for each in (fixed, stopped)]
    assert 0.99 * DELTA < spent[0] <= DELTA
    assert 5 * DELTA < spent[1] < WAVES * DELTA

"""Surveys of shuffled waves whose number, or sizes, are chosen by what earlier waves showed."""

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


def test_who_takes_epsilon_for_sizes_that_depend_on_earlier_waves_spends_more_than_delta():
    """The survey chooses each wave's size, and a reader takes ε for the smallest that came."""
    sizes, law, negligible = (200, 400, 800), ReportLaw.worst(2.0), DELTA / 1000 / WAVES
    highest = shuffled_epsilon(law, sizes[0], negligible).epsilon
    losses = [_batch_loss(law, size, highest, negligible) for size in sizes]
    reach = len(losses[0].masses) // 2
    sums = losses[0].step * np.arange(-WAVES * reach, WAVES * reach + 1)

    def one_wave_earlier(value, loss):
        padded = np.pad(value, reach, mode="edge")
        return np.convolve(padded, loss.masses[::-1], "valid") + loss.infinite

    # Values by the index of the smallest size so far.
    fixed = [excess(composed_epsilon(loss, WAVES, DELTA), sums) for loss in losses]
    chosen = fixed
    for _ in range(WAVES - 1):
        fixed = [one_wave_earlier(*each) for each in zip(fixed, losses, strict=True)]
        chosen = [
            np.max([one_wave_earlier(chosen[min(i, k)], losses[k]) for k in range(3)], axis=0)
            for i in range(3)
        ]
    spent = [one_wave_earlier(each[2], losses[2])[WAVES * reach] for each in (fixed, chosen)]
    assert spent[0] <= DELTA
    assert spent[1] > 1.015 * DELTA

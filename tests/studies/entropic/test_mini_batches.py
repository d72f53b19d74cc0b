import pytest

from studies.entropic.mini_batches import learned


def test_one_point_teaches_nothing():
    variance, _ = learned(3, 1, 1.0, False, seed=0)
    assert variance < 0.001


@pytest.mark.parametrize("weight", [0.5, 1.0])
def test_large_batches_on_the_line_learn_the_closed_form(weight):
    """s² = S² − λσ²; batches of 400 are .01 below it."""
    variance, error = learned(1, 400, weight, False, seed=1)
    assert error < 0.04
    assert abs(variance - (2 - weight)) < 5.5 * error + 0.01


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_the_corrected_loss_is_stationary_at_the_truth(weight):
    """In batches of 40 and 10 dimensions, where the loss itself learns less than .7."""
    plain, _ = learned(10, 40, weight, False, seed=2)
    corrected, error = learned(10, 40, weight, True, seed=2)
    assert plain < 0.7
    assert error < 0.05
    assert abs(corrected - 1) < 5.5 * error

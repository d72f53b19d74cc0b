"""What GS-WGAN's code spends, counted."""

import math

import pytest

pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
from privot.privacy import gaussian_epsilon
from studies.sliced import gs_wgan


def test_one_step_with_certainty_is_the_gaussian_mechanism():
    exact = gaussian_epsilon(gs_wgan.NOISE, 1.0, gs_wgan.DELTA)
    assert exact <= gs_wgan.spent(1.0, 1, discriminators=1) < exact + 2e-3


def test_gradients_of_a_step_cost_more_together_than_one_by_one(capsys):
    gs_wgan.run(None)
    alone, together = (float(line.split("=")[1]) for line in capsys.readouterr().out.splitlines())
    assert 4 < alone < 10
    assert 320 < together < 340
    assert together > 10 * gs_wgan.spent(math.sqrt(8), gs_wgan.STEPS, interval=1e-2)

"""Hats hold what their volumes and logarithms say."""

import numpy as np
import pytest

from privot.local.deconvolution import Hats


def test_equal_logarithms_are_a_flat_density_and_half_are_missing():
    nodes = np.ones((5, 5), bool)
    weights = Hats.of(nodes, 26).weights(np.full(26, -700.0))
    assert weights[-1] == pytest.approx(0.5)
    inner = weights[:-1].reshape(5, 5)
    assert inner[0, 0] == pytest.approx(inner[2, 2] / 4)
    assert inner[0, 2] == pytest.approx(inner[2, 2] / 2)
    assert weights.sum() == pytest.approx(1.0)


def test_nobody_is_at_a_node_that_is_not_allowed():
    nodes = np.array([True, False, True])
    weights = Hats.of(nodes, 3).weights(np.array([0.0, 50.0, np.log(3.0)]))
    assert weights == pytest.approx([0.25, 0.0, 0.75])

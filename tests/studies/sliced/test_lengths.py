"""The law of a projected difference's squared length, and where the normal one fails."""

import argparse

import numpy as np
import pytest

from studies.rivals.published_slice_bounds import published_bernstein
from studies.sliced import lengths


def test_the_law_has_the_moments_of_a_sum_and_agrees_with_draws():
    values, weights = lengths.law_of_sum(200)
    mean, spread = 200 / 784, np.sqrt(2 * 200 * 783 / 786) / 784
    assert weights.sum() == pytest.approx(1, abs=1e-9)
    assert weights @ values == pytest.approx(mean, rel=1e-4)
    assert np.sqrt(weights @ (values - mean) ** 2) == pytest.approx(spread, rel=1e-4)
    directions = np.random.default_rng(0).standard_normal((20_000, 6, 10))
    cosines = directions[:, :, 0] / np.linalg.norm(directions, axis=2)
    drawn = (cosines**2).sum(axis=1)
    values, weights = lengths.law_of_sum(6, dim=10)
    assert weights[values > 1.2].sum() == pytest.approx((drawn > 1.2).mean(), abs=4e-3)


def test_the_normal_bound_is_exceeded_the_more_the_smaller_delta_and_bernsteins_never():
    often = [lengths.exceeded(200, delta) for delta in lengths.DELTAS]
    assert often == sorted(often)
    assert often[0] > 1.3
    assert lengths.exceeded(1000, 5e-6) == pytest.approx(3.0, abs=0.05)
    values, weights = lengths.law_of_sum(200)
    assert weights[values > published_bernstein(784, 200, 1e-2)].sum() < 1e-2


def test_the_recipe_draws_and_tells(tmp_path, capsys):
    lengths.run(argparse.Namespace(output=tmp_path))
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")
    assert "200 directions: exceeded by times δ: 1.39 at δ = 0.01" in capsys.readouterr().out

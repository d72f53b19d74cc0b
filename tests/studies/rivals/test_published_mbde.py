"""The published method: its coefficients, its missing bound, and its counted records."""

import math

import pytest
import torch

from privot.core.errors import PrivotError
from studies.rivals.published_mbde import (
    LOG_2,
    PublishedSettings,
    fit_published,
    in_order,
    on_grid,
)

QUICK = PublishedSettings(rounds=2, epochs=150, batch_size=400, burn_in=50)
X = torch.linspace(-3, 3, 61)[None, :, None]


def records(seed=0, num=600):
    generator = torch.Generator().manual_seed(seed)
    return 1.5 + 0.4 * torch.randn(1, num, 1, generator=generator)


def test_coefficients_are_the_papers():
    density = fit_published(records(num=40), 10.0, PublishedSettings(epochs=1, burn_in=1), seed=0)
    ratio = 10 / (10 + 4 * LOG_2)
    assert density.coefficients == pytest.approx([ratio, ratio**2, ratio**3])
    assert density.spent_epsilon == math.inf


def test_clipped_classifiers_spend_less_than_claimed():
    settings = PublishedSettings(epochs=1, burn_in=1, clip=True)
    density = fit_published(records(num=40), 10.0, settings, seed=0)
    assert density.spent_epsilon == pytest.approx(5.2, abs=0.02)


def test_without_a_bound_the_claim_fails():
    """log q/q₀ may reach ε/2; the unbounded classifiers go beyond, clipped ones cannot."""
    epsilon = 0.5
    loose = fit_published(records(), epsilon, QUICK, seed=0).log_tilt(X)
    settings = PublishedSettings(2, epochs=150, batch_size=400, burn_in=50, clip=True)
    bounded = fit_published(records(), epsilon, settings, seed=0).log_tilt(X)
    assert loose.max() - loose.min() > epsilon
    assert bounded.abs().max() <= epsilon / 4


def test_it_moves_towards_the_records():
    tilt = fit_published(records(), 2.0, QUICK, seed=0).log_tilt(X)[0]
    assert X[0, tilt.argmax(), 0] > 0.8


def test_counted_records_give_the_same_fit():
    """Records at centers of cells: counting rounds nothing but the draws of N(0, 1)."""
    rounded = (records() * 8).floor() / 8 + 1 / 16
    rounded = rounded.clamp(-3.9, 3.9)
    one = PublishedSettings(rounds=1, epochs=60, batch_size=400)
    points, counts = on_grid([-4.0], [4.0], 64, 400)(rounded)
    assert counts.sum(dim=1).tolist() == [[400, 200]]
    rebuilt = points[0, :, 0].repeat_interleave(counts[0].sum(dim=1).long())
    assert rebuilt.sort().values.tolist() == pytest.approx(rounded.ravel().sort().values.tolist())

    exact = fit_published(rounded, 1.0, one, in_order(400), seed=1).log_tilt(X)
    counted = fit_published(rounded, 1.0, one, on_grid([-4.0], [4.0], 64, 400), seed=1).log_tilt(X)
    assert (exact - counted).abs().max() < 0.02


def test_stacked_fits_do_not_interact():
    first, second = records(0), -records(1)
    both = fit_published(torch.cat([first, second]), 2.0, QUICK, seed=0)
    tilts = both.log_tilt(X.expand(2, -1, -1))
    assert X[0, tilts[0].argmax(), 0] > 0 > X[0, tilts[1].argmax(), 0]


def test_planes_are_rounded_too():
    plane = torch.tensor([[[0.1, -0.9], [0.9, 0.9]]])
    points, counts = on_grid([-1.0, -1.0], [1.0, 1.0], 2, 5)(plane)
    held = points[0][counts[0, :, 0] > 0]
    assert held.tolist() == [[0.5, -0.5], [0.5, 0.5]]


def test_chains_approach_their_density():
    density = fit_published(records(), 2.0, QUICK, seed=0)
    draws = density.draw(4000, 1, torch.Generator().manual_seed(1))[0, :, 0]
    x = torch.linspace(-6, 6, 2401)
    logs = density.log_tilt(x[None, :, None])[0] - x**2 / 2
    q = torch.softmax(logs, dim=0)
    mean = (q * x).sum()
    assert float(draws.mean()) == pytest.approx(float(mean), abs=0.15)


def test_refusals():
    with pytest.raises(PrivotError, match="epsilon is 0"):
        fit_published(records(), 0.0, seed=0)
    with pytest.raises(PrivotError, match="records have shape"):
        fit_published(torch.zeros(3, 1), 1.0, seed=0)

import math

import numpy as np
import pytest
import torch

from privot.central import SliceSettings
from privot.central.slice_fit import PooledMean, smoothed_sliced_loss, spread_loss
from privot.central.slices import SlicePlan, Slices, SlicingMechanism
from privot.core.errors import PrivotError
from privot.privacy.ledger import Ledger
from privot.transport.exact import transport_cost_1d


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("rows", [40, 25])
def test_value_and_gradient_are_those_of_transport_on_the_line(q, rows):
    x = torch.randn(40, 7, generator=rng(1))
    y = torch.randn(rows, 7, generator=rng(2), requires_grad=True)
    loss = smoothed_sliced_loss(x, y, 0.0, q, rng())
    (gradient,) = torch.autograd.grad(loss, y)
    expected = transport_cost_1d(y, x, q).mean()
    (right,) = torch.autograd.grad(expected, y)
    assert torch.allclose(loss, expected, rtol=1e-5)
    assert torch.allclose(gradient, right, atol=1e-7)


def test_no_gradient_reaches_the_private_side():
    x = torch.randn(9, 3, generator=rng(1), requires_grad=True)
    y = torch.randn(9, 3, generator=rng(2), requires_grad=True)
    smoothed_sliced_loss(x, y, 0.5, 2, rng()).backward()
    assert x.grad is None
    assert y.grad.abs().sum() > 0


def test_noise_on_both_sides_makes_equal_laws_meet():
    """With noise on the private side only, the loss would not be near 0 at the truth."""
    clean = torch.randn(4000, 2, generator=rng(1))
    noisy = torch.randn(4000, 2, generator=rng(3)) + 2 * torch.randn(4000, 2, generator=rng(2))
    assert smoothed_sliced_loss(noisy, clean, 2.0, 2, rng(4)) < 0.05
    assert smoothed_sliced_loss(noisy, clean, 0.0, 2, rng(4)) > 1.0


def test_the_loss_is_mean_part_plus_spread():
    x = torch.randn(30, 4, generator=rng(1)) + 3
    y = torch.randn(30, 4, generator=rng(2))
    whole = smoothed_sliced_loss(x, y, 0.0, 2, rng())
    means = (x.mean(dim=0) - y.mean(dim=0)).square().mean()
    assert torch.allclose(whole, means + spread_loss(x, y, 0.0, rng()), rtol=1e-4)


def test_other_exponents_are_refused():
    with pytest.raises(PrivotError, match="q is 3"):
        smoothed_sliced_loss(torch.zeros(2, 1), torch.zeros(2, 1), 0.0, 3, rng())


DIM = 24


def plan(stddev=0.25, records=300, **fields):
    """A plan for records of `DIM` coordinates whose noise nobody calibrated."""
    settings = SliceSettings(**{"batch_size": 20} | fields)
    accounting = settings.accounting(records, Coordinates(), 2.0**-13)
    steps = 1 if settings.release == "once" else settings.steps
    return SlicePlan(accounting, stddev, steps, 1e-3, 2.0**-18)


class Coordinates:
    """Records as they are."""

    num_labels, width, non_negative, unit = 1, DIM, True, "person"

    def prepare(self, values):
        return values

    def features(self, prepared):
        return prepared

    def to_dict(self):
        return {}


def records(count, seed):
    """Unit vectors around a common one."""
    rng = torch.Generator().manual_seed(seed)
    values = torch.rand(count, DIM, generator=rng)
    return values / values.norm(dim=1, keepdim=True)


def pooled_scores(setting: SlicePlan, seed):
    """(estimate − truth)/stated error of one run, on records of its own."""
    values = records(setting.accounting.records, seed)
    mechanism = SlicingMechanism(values, None, Coordinates(), Ledger(setting))
    pooled = PooledMean(setting)
    while mechanism.ledger.left:
        pooled.add(mechanism.release())
    return ((pooled.estimate - values.mean(dim=0)) / pooled.stddev).numpy()


@pytest.mark.parametrize(
    ("repetitions", "fields"),
    [
        (24, {"steps": 30, "num_projections": 6}),
        (24, {"steps": 30, "num_projections": 6, "neighboring": "zero_out"}),
        (24, {"steps": 30, "num_projections": 6, "orthonormal": True}),
        (52, {"steps": 12, "num_projections": 6, "stddev": 0.05}),
        (24, {"steps": 20, "num_projections": 50}),
        (52, {"release": "once", "num_projections": 300}),
    ],
    ids=["fixed", "poisson", "frames", "transient", "more-than-dim", "once"],
)
def test_the_estimate_is_unbiased_with_the_error_it_states(repetitions, fields):
    """Also a test of signs, padding and directions.

    The root mean square of scores has a standard error of .020 to .034, their mean one of .038 to .054
    (200 runs each; scores of one run depend on each other by its directions): limits are 5.5 standard
    deviations away, or more. Errors stated a third too small would make the root mean square 1.5.
    """
    setting = plan(**fields)  # one for all runs: its guarantee takes longer than a run
    scores = np.stack([pooled_scores(setting, seed) for seed in range(repetitions)])
    assert 0.77 < math.sqrt(np.square(scores).mean()) < 1.23
    assert abs(scores.mean()) < 0.3


def test_nothing_is_known_before_a_release():
    pooled = PooledMean(plan(steps=3))
    assert pooled.stddev == math.inf
    assert not pooled.estimate.any()


def test_state_travels():
    setting = plan(steps=30)
    first, second = PooledMean(setting), PooledMean(setting)
    rng = torch.Generator().manual_seed(0)
    for _ in range(5):
        first.add(Slices(torch.eye(DIM)[:, :16], torch.randn(20, 16, generator=rng)))
    second.load_state_dict(first.state_dict())
    assert second.stddev == first.stddev
    assert torch.equal(second.estimate, first.estimate)

import math

import numpy as np
import pytest
import torch

from privot.sliced import Ledger, SlicedSettings, SlicePlan, SlicingMechanism
from privot.sliced.releases.mechanism import Slices
from privot.sliced.releases.pooled import PooledMean, noise_stddev

DIM = 24


def plan(stddev=0.25, records=300, **fields):
    """A plan for records of `DIM` coordinates whose noise nobody calibrated."""
    settings = SlicedSettings(**{"batch_size": 20} | fields)
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
        (16, {"steps": 100, "num_projections": 6}),
        (16, {"steps": 100, "num_projections": 6, "neighboring": "zero_out"}),
        (16, {"steps": 100, "num_projections": 6, "orthonormal": True}),
        (40, {"steps": 12, "num_projections": 6, "stddev": 0.05}),
        (16, {"steps": 40, "num_projections": 50}),
        (40, {"release": "once", "num_projections": 300}),
    ],
    ids=["fixed", "poisson", "frames", "transient", "more-than-dim", "once"],
)
def test_the_estimate_is_unbiased_with_the_error_it_states(repetitions, fields):
    """Also a test of signs, padding and directions: of 384 scores or more, within six deviations."""
    scores = np.stack([pooled_scores(plan(**fields), seed) for seed in range(repetitions)])
    assert 0.77 < math.sqrt(np.square(scores).mean()) < 1.23
    assert abs(scores.mean()) < 0.3


def test_what_noise_alone_explains_is_stated_before():
    """For many releases without batches of their own, the stated error tends to the noise's."""
    setting = plan(stddev=2.0, steps=4000, num_projections=12)
    pooled = PooledMean(setting)
    rng = torch.Generator().manual_seed(0)
    for _ in range(setting.steps):
        directions = torch.randn(DIM, 12, generator=rng)
        directions /= directions.norm(dim=0)
        values = 2.0 * torch.randn(setting.rows, 12, generator=rng)
        pooled.add(Slices(directions, values))
    assert noise_stddev(setting) < pooled.stddev < 1.02 * noise_stddev(setting)


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

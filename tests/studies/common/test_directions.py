"""Random directions are uniform."""

import torch

from studies.common.directions import random_directions


def rng(seed):
    return torch.Generator().manual_seed(seed)


def test_directions_are_uniform_on_the_sphere_and_follow_the_seed():
    directions = random_directions(3, 20_000, rng(1))
    torch.testing.assert_close(directions.norm(dim=0), torch.ones(20_000, dtype=torch.float64))
    # Standard errors: 0.004 of a mean, 0.002 of a second moment; 5 of them allowed.
    assert float(directions.mean(dim=1).abs().max()) < 0.02
    second = directions @ directions.T / 20_000
    assert float((second - torch.eye(3) / 3).abs().max()) < 0.012
    assert torch.equal(directions, random_directions(3, 20_000, rng(1)))
    assert not torch.equal(directions, random_directions(3, 20_000, rng(2)))

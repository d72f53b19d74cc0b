"""Sets that a channel simulates hold the truth as often as they say, and nothing twice."""

import pytest
import torch

from privot.local.likelihood.channels import channel_of, simulate_sets
from privot.local.likelihood.points import PointChannel
from privot.mechanisms import Laplace
from privot.schema import Schema


@pytest.mark.parametrize("own", [0.25, 0.9])
def test_sets_hold_the_truth_with_its_probability_and_others_alike(own):
    num, size = 20_000, 3
    truth = torch.full((num,), 2)
    sets = simulate_sets(truth, torch.full((num,), 6), size, own, torch.Generator().manual_seed(0))
    assert sets.shape == (num, size)
    member = torch.zeros(num, 6).scatter_(1, sets, 1.0)
    assert (member.sum(dim=1) == size).all()
    expected = torch.full((6,), (size - own) / 5)
    expected[2] = own
    torch.testing.assert_close(member.mean(dim=0), expected, atol=0.02, rtol=0)


def test_alphabets_and_sets_of_several_sizes_are_padded():
    truth, values, size = torch.tensor([0, 3]), torch.tensor([2, 5]), torch.tensor([1, 4])
    sets = simulate_sets(truth, values, size, torch.ones(2), torch.Generator())
    assert sets[0].tolist() == [0, -1, -1, -1]
    assert len(set(sets[1].tolist())) == 4
    assert 3 in sets[1]


def test_noise_of_a_point_has_a_channel_of_points():
    schema = Schema.from_toml('[columns.x]\nkind = "numeric"\nbounds = [0, 1]')
    channel = channel_of(Laplace(1.0, 2.0**-19), schema, "x")
    assert isinstance(channel, PointChannel)
    costs = channel.cost(torch.tensor([[0.0], [0.5]]), torch.tensor([[1.0]]))
    assert float(costs[0] - costs[1]) == pytest.approx(0.5)

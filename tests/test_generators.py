"""Generators that know which class they draw."""

import pytest
import torch

from privot.errors import PrivotError
from privot.generators import MLP, Conditional


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_conditional_draws_what_it_is_asked_for_and_its_shares_otherwise():
    generator = Conditional(MLP(latent_dim=2 + 3, num_features=4), torch.tensor([0.2, 0.3, 0.5]))
    labels = torch.tensor([2, 0, 1, 1])
    latent = generator.draw_latent(4, rng(), labels)
    outputs = generator(latent)
    assert outputs.shape == (4, 7)
    assert torch.equal(outputs[:, 4:].argmax(dim=1), labels)
    drawn = generator.draw_latent(20_000, rng())[:, -3:].mean(dim=0)
    torch.testing.assert_close(drawn, torch.tensor([0.2, 0.3, 0.5]), atol=0.02, rtol=0)


def test_conditional_images_depend_on_the_label():
    generator = Conditional(MLP(latent_dim=4 + 10, num_features=6), torch.ones(10) / 10)
    zeros, ones = (
        generator(generator.draw_latent(1, rng(), torch.tensor([label])))[:, :-10]
        for label in (0, 1)
    )
    assert not torch.allclose(zeros, ones)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        (torch.ones(3) / 3, "fewer than the latent's coordinates"),
        (torch.ones(2), "make them sum to 1"),
    ],
)
def test_refusals(shares, message):
    with pytest.raises(PrivotError, match=message):
        Conditional(MLP(3, 2), shares)

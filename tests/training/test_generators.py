"""Generators that know which class they draw."""

import pytest
import torch

from privot.core.errors import PrivotError
from privot.training.generators import DCGAN, MLP, Conditional


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
        (torch.ones(3) / 3, "fewer labels than the network has inputs"),
        (torch.ones(2), "make them sum to 1"),
    ],
)
def test_refusals(shares, message):
    with pytest.raises(PrivotError, match=message):
        Conditional(MLP(3, 2), shares)


def test_a_trained_image_is_made_of_its_own_latent_alone():
    network = DCGAN(5, (12, 8, 3), (6, 4))
    latent = network.draw_latent(20, rng())
    assert float(latent.abs().max()) <= 1
    for _ in range(50):
        network(latent)
    network.eval()
    torch.testing.assert_close(network(latent)[3:5], network(latent[3:5]))
    assert network(latent).shape == (20, 12 * 8 * 3)


def test_channels_are_last_as_in_arrays():
    """The last convolution's bias is a channel's: of red alone, every third feature moves."""
    network = DCGAN(5, (4, 4, 3), (6,)).eval()
    latent = network.draw_latent(2, rng())
    before = network(latent)
    with torch.no_grad():
        network.layers[-1].bias[0] += 1.0
    moved = (network(latent) - before).reshape(2, 4, 4, 3)
    torch.testing.assert_close(moved, torch.tensor([1.0, 0.0, 0.0]).expand(2, 4, 4, 3))

"""Generators of images: shapes, limits, seeds, labels."""

import pytest
import torch

from privot.errors import PrivotError
from privot.generators import DCGAN, MLP, Bounded, Conditional


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("size", "channels"), [(28, 1), (32, 1), (64, 3)])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_dcgan_makes_images_of_each_size(size, channels, batch_norm):
    generator = DCGAN(size, channels, latent_dim=5, width=4, batch_norm=batch_norm)
    images = generator(generator.draw_latent(3, rng()))
    assert images.shape == (3, channels * size * size)
    assert float(images.detach().abs().max()) <= 1
    images.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in generator.parameters())
    norms = [m for m in generator.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert bool(norms) == batch_norm


def test_seeds_decide_weights_and_latents_and_leave_the_global_generator_alone():
    state = torch.random.get_rng_state()
    one, same, other = (DCGAN(latent_dim=4, width=4, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), state)
    latent = one.draw_latent(2, rng(3))
    assert torch.equal(one(latent), same(latent))
    assert not torch.equal(one(latent), other(latent))
    assert torch.equal(latent, one.draw_latent(2, rng(3)))


def test_latents_are_uniform_or_normal():
    uniform = DCGAN(latent_dim=50, width=2).draw_latent(400, rng())
    normal = DCGAN(latent_dim=50, width=2, latent="normal").draw_latent(400, rng())
    assert 0 <= float(uniform.min()) < 0.01
    assert 0.99 < float(uniform.max()) <= 1
    assert float(normal.min()) < -3
    bounded = Bounded(MLP(50, 3), torch.zeros(3), "uniform").draw_latent(400, rng())
    assert torch.equal(bounded, uniform)


def test_bounded_starts_near_the_mean_and_cannot_leave_the_cube():
    mean = torch.tensor([-1.0, 0.0, 0.5])
    generator = Bounded(MLP(4, 3, (16,)), mean)
    images = generator(generator.draw_latent(500, rng())).detach()
    assert float(images.abs().max()) < 1
    assert float((images.mean(dim=0) - mean).abs().max()) < 0.3
    with torch.no_grad():
        generator.network.layers[-1].weight.mul_(1e4)
    assert float(generator(generator.draw_latent(9, rng())).detach().abs().max()) <= 1


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
    generator = Conditional(DCGAN(latent_dim=4 + 10, width=4, latent="normal"), torch.ones(10) / 10)
    zeros, ones = (
        generator(generator.draw_latent(1, rng(), torch.tensor([label])))[:, :-10]
        for label in (0, 1)
    )
    assert not torch.allclose(zeros, ones)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DCGAN(30), r"size 30 is not known: use one of \[28, 32, 64\]"),
        (lambda: DCGAN(latent="cauchy"), "latent 'cauchy' is not known"),
        (lambda: DCGAN(width=0), "give at least 1 of each"),
        (lambda: Bounded(MLP(2, 3), torch.zeros(4)), r"mean has shape \(4,\): give \(3,\)"),
        (lambda: Bounded(MLP(2, 3), torch.zeros(3), "cauchy"), "latent 'cauchy' is not known"),
        (lambda: Conditional(MLP(3, 2), torch.ones(3) / 3), "fewer than the latent's coordinates"),
        (lambda: Conditional(MLP(9, 2), torch.ones(3)), "make them sum to 1"),
    ],
)
def test_refusals(build, message):
    with pytest.raises(PrivotError, match=message):
        build()

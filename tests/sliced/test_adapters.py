"""Adapters begin as the identity, and turn, shift and correct; jitter stays near the identity."""

import pytest
import torch

from privot.sliced.adaptation.adapters import (
    ImageAdapter,
    VectorAdapter,
    make_adapter,
    random_affine,
)

SHARES = torch.tensor([0.25, 0.75])


@pytest.mark.parametrize("images", [True, False])
def test_begins_as_the_identity(images):
    shape = (2, 6, 6) if images else (5,)
    adapter = make_adapter(shape, images, SHARES, seed=0)
    x = torch.rand(4, *shape)
    assert torch.allclose(adapter(x), x, atol=1e-6)
    assert torch.allclose(adapter.shares, SHARES)
    assert isinstance(adapter, ImageAdapter if images else VectorAdapter)


def test_the_warp_shifts_images():
    adapter = ImageAdapter(1, SHARES)
    x = torch.rand(3, 1, 8, 8)
    # Two pixels of eight are half of half a side; entries move three times as fast.
    adapter.warp.data[0, 2] = 0.5 / 3
    assert torch.allclose(adapter(x)[..., :6], x[..., 2:], atol=1e-5)
    assert torch.allclose(adapter(x)[..., 6:], torch.zeros(3, 1, 8, 2), atol=1e-5)


def test_jitter_and_warp_compose_in_one_resampling():
    """A doubling warp and a jitter that halves cancel."""
    adapter = ImageAdapter(1, SHARES)
    adapter.warp.data[:, :2] = torch.eye(2) / 3
    x = torch.rand(1, 1, 8, 8)
    half = torch.tensor([[[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]]])
    assert torch.allclose(adapter(x, half), x, atol=1e-5)
    assert not torch.allclose(adapter(x), x, atol=1e-2)


def test_jitter_is_small_and_of_every_kind():
    maps = random_affine(2000, 0.1, torch.Generator().manual_seed(0))
    away = (maps - torch.eye(2, 3)).abs()
    assert float(away.max()) < 0.25
    assert float(away.flatten(1).max(dim=0).values.min()) > 0.05
    assert float((maps.mean(dim=0) - torch.eye(2, 3)).abs().max()) < 0.01
    none = random_affine(3, 0.0, torch.Generator())
    assert torch.allclose(none, torch.eye(2, 3).expand(3, 2, 3))

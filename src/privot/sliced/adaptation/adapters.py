r"""What moves public source records towards a target: the only thing that alignment trains.

An adapter A_θ is applied to source records alone. Images are warped by one affine map and corrected by
two small convolutions; other records are moved by a narrow residual network. It starts as the
identity. Beside it stand the target's class shares, as the source's are reweighted by.

**Jitter.** Small random affine maps (rotation, two scales, shear, shift) of source images make any
classifier less dependent on where digits sit. It is applied to public records only, and composed with
the adapter's own map: images are resampled once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

_WARP_RATE = 3.0  # affine entries move this much faster than weights
_LARGEST_ANGLE, _LARGEST_SHIFT = 0.2, 0.12  # radians, halves of a side


class Adapter(nn.Module):
    """Records to records of the same shape, by a residual through two layers; and class shares."""

    inner: ClassVar[int]

    def __init__(
        self, size: int, shares: Tensor, seed: int, layer: Callable[..., nn.Module]
    ) -> None:
        super().__init__()
        self.log_shares = nn.Parameter(shares.log())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            first, last = layer(size, self.inner), layer(self.inner, size)
        for parameter in last.parameters():  # begin with an output of 0
            nn.init.zeros_(parameter)
        self.correction = nn.Sequential(first, nn.ReLU(), last)

    @property
    def shares(self) -> Tensor:
        """The target's class shares as fitted."""
        return self.log_shares.softmax(dim=0)


class ImageAdapter(Adapter):
    """Images (n, c, h, w) in [0, 1] → the same shape: an affine map, two 5 × 5 convolutions."""

    inner = 8

    def __init__(self, channels: int, shares: Tensor, seed: int = 0) -> None:
        super().__init__(channels, shares, seed, partial(nn.Conv2d, kernel_size=5, padding=2))
        self.warp = nn.Parameter(torch.zeros(2, 3))

    def forward(self, x: Tensor, jitter: Tensor | None = None) -> Tensor:
        """Moved images; `jitter` (n, 2, 3) from `random_affine` comes on top."""
        own = torch.eye(2, 3) + _WARP_RATE * self.warp
        maps = own.expand(len(x), 2, 3)
        if jitter is not None:
            turned = own[:, :2] @ jitter
            maps = torch.cat([turned[:, :, :2], turned[:, :, 2:] + own[:, 2:]], dim=2)
        grid = nn.functional.affine_grid(maps, list(x.shape), align_corners=False)
        moved = nn.functional.grid_sample(x, grid, align_corners=False)
        corrected: Tensor = (moved + self.correction(moved)).clamp(0.0, 1.0)
        return corrected


class VectorAdapter(Adapter):
    """Records (n, p) → the same shape: x plus a residual through 32 units."""

    inner = 32

    def __init__(self, dim: int, shares: Tensor, seed: int = 0) -> None:
        super().__init__(dim, shares, seed, nn.Linear)

    def forward(self, x: Tensor, jitter: Tensor | None = None) -> Tensor:
        """Moved records; there is no jitter of vectors."""
        moved: Tensor = x + self.correction(x)
        return moved


def random_affine(count: int, amount: float, rng: torch.Generator) -> Tensor:
    """Affine maps (count, 2, 3) near the identity.

    Log scales go up to ±amount, angle and shear up to ±min(amount, 0.2), shifts up to ±min(amount,
    0.12) of half a side.
    """

    def uniform(largest: float) -> Tensor:
        return (2 * torch.rand(count, generator=rng) - 1) * largest

    angle = uniform(min(amount, _LARGEST_ANGLE))
    shear = uniform(min(amount, _LARGEST_ANGLE))
    wide, high = uniform(amount).exp(), uniform(amount).exp()
    shift = min(amount, _LARGEST_SHIFT)
    first = torch.stack([wide * angle.cos(), wide * (shear - angle.sin()), uniform(shift)], dim=1)
    second = torch.stack([high * angle.sin(), high * angle.cos(), uniform(shift)], dim=1)
    return torch.stack([first, second], dim=1)


def make_adapter(shape: tuple[int, ...], images: bool, shares: Tensor, seed: int) -> Adapter:
    """The adapter for records of a shape: (c, h, w) if they are images."""
    if images:
        return ImageAdapter(shape[0], shares, seed)
    return VectorAdapter(math.prod(shape), shares, seed)

r"""Small random changes of source images: a classifier then depends less on how they were drawn.

An image is turned, scaled along two axes, sheared and shifted; wrinkled by a smooth field of shifts; and
its strokes are made wider or narrower, by mixing it with the most or the least of each pixel's
neighbours. One number scales all of it. Public records alone are changed.

References:
    Simard, Steinkraus, Platt, *Best practices for convolutional neural networks applied to visual
    document analysis* (2003), for wrinkles.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_LARGEST_ANGLE, _LARGEST_SHIFT = 0.2, 0.12  # radians, halves of a side
_WRINKLE = 0.2  # standard deviation of shifts, in halves of a side, where the amount is 1
_CELLS = 4  # of the field of shifts, along a side
_WIDTH = 2.0  # share of the neighbours' most or least, where the amount is 1


def augmented(x: Tensor, amount: float, rng: torch.Generator) -> Tensor:
    """Images (n, c, h, w) in [0, 1], each changed by an amount of its own; 0 leaves them as they are.

    Arguments:
        x: Images.
        amount: Largest log scale of an axis; wrinkles and widths go with it.
        rng: Of the changes.
    """
    if not amount:
        return x
    count, (high, wide) = len(x), x.shape[2:]
    maps = random_affine(count, amount, rng)
    grid = nn.functional.affine_grid(maps, list(x.shape), align_corners=False)
    shifts = torch.randn(count, 2, _CELLS, _CELLS, generator=rng)
    field = nn.functional.interpolate(shifts, (high, wide), mode="bicubic", align_corners=True)
    grid = grid + _WRINKLE * amount * field.permute(0, 2, 3, 1)
    moved = nn.functional.grid_sample(x, grid, align_corners=False)
    most = nn.functional.max_pool2d(moved, 3, 1, 1)
    least = -nn.functional.max_pool2d(-moved, 3, 1, 1)
    width = min(_WIDTH * amount, 1.0) * (2 * torch.rand(count, 1, 1, 1, generator=rng) - 1)
    return torch.where(
        width > 0, moved + width * (most - moved), moved + width * (moved - least)
    ).clamp(0.0, 1.0)


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

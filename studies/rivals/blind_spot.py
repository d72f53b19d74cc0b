r"""Noise2void: a denoiser that learns from noisy images alone, by not looking at the pixel it guesses.

Some pixels of a noisy image are replaced by a random neighbor; a network is asked for their true noisy
values. Noise that is independent between pixels cannot be guessed, so the best guess of a squared error
is the mean of the clean pixel given its surroundings, $E[x_i | y_{-i}]$. What the surroundings do not
say is lost: under the noise of local privacy that is nearly everything.

Privacy: trained on reports and applied to reports: post-processing.

References:
    Krull, Buchholz, Jug, *Noise2Void: learning denoising from single noisy images* (2019).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from privot.core.errors import PrivotError

_MASKED = 0.02
_NEIGHBORHOOD = 2
_BLOCK = 1000


class BlindSpotDenoiser(nn.Module):
    """A U-net of depth 2 over gray images whose height and width are multiples of 4.

    Arguments:
        width: Channels of the first level; 32 in the paper.
        scale: Deviation of a noisy pixel; inputs are divided by it.
        seed: Of the initial weights.
    """

    def __init__(self, width: int = 16, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__()
        if width < 1 or not scale > 0:
            raise PrivotError(f"width {width} and scale {scale}: give positive numbers")
        self.scale = scale
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.first, self.second = _block(1, width), _block(width, 2 * width)
            self.bottom = _block(2 * width, 4 * width)
            self.up_second = _block(6 * width, 2 * width)
            self.up_first = _block(3 * width, width)
            self.last = nn.Conv2d(width, 1, 1)
        self.down, self.up = nn.MaxPool2d(2), nn.Upsample(scale_factor=2)

    def forward(self, images: Tensor) -> Tensor:
        """Guesses (n, height, width) of the clean pixels."""
        first = self.first(images[:, None] / self.scale)
        second = self.second(self.down(first))
        bottom = self.bottom(self.down(second))
        second = self.up_second(torch.cat([self.up(bottom), second], dim=1))
        first = self.up_first(torch.cat([self.up(second), first], dim=1))
        guess: Tensor = self.last(first)[:, 0] * self.scale
        return guess

    @torch.no_grad()
    def denoise(self, images: Tensor) -> Tensor:
        """Guesses for any number of images, in blocks."""
        self.eval()
        return torch.cat([self(part) for part in images.split(_BLOCK)])


def train_blind_spot(
    noisy: Tensor, *, width: int = 16, steps: int = 600, batch_size: int = 64, seed: int = 0
) -> BlindSpotDenoiser:
    """A denoiser for images like `noisy` (n, height, width), learned from them alone.

    Arguments:
        noisy: Released images; nothing else is looked at.
        width: Channels of the first level.
        steps: Number of Adam steps, at the paper's 4e-4.
        batch_size: Images a step.
        seed: Of weights, batches and masks.

    Raises:
        PrivotError: if the images' sides are not multiples of 4.
    """
    if noisy.ndim != 3 or noisy.shape[1] % 4 or noisy.shape[2] % 4:
        raise PrivotError(
            f"noisy has shape {tuple(noisy.shape)}: give (n, height, width), multiples of 4"
        )
    model = BlindSpotDenoiser(width, float(noisy[:1000].std()), seed)
    rng = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), 4e-4)
    for _ in range(steps):
        batch = noisy[torch.randint(len(noisy), (batch_size,), generator=rng)]
        masked = torch.rand(batch.shape, generator=rng) < _MASKED
        guess = model(torch.where(masked, _neighbor(batch, rng), batch))
        loss = ((guess - batch)[masked] ** 2).mean() / model.scale**2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def _neighbor(images: Tensor, rng: torch.Generator) -> Tensor:
    """Each pixel's value replaced by that of another pixel at most two away, wrapped at the edges."""
    height, width = images.shape[1:]
    reach = 2 * _NEIGHBORHOOD + 1
    # Any of the 24 others: the pixel itself, number 12, would give its noise away.
    chosen = torch.randint(reach**2 - 1, images.shape, generator=rng)
    chosen = chosen + (chosen >= reach**2 // 2)
    rows = torch.arange(height)[None, :, None] + chosen // reach - _NEIGHBORHOOD
    columns = torch.arange(width)[None, None, :] + chosen % reach - _NEIGHBORHOOD
    which = torch.arange(len(images))[:, None, None]
    return images[which, rows % height, columns % width]


def _block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )

"""Inception features, for the Fréchet inception distance (FID): the weights are the user's own file.

The weights cannot be shipped, nor fetched here. Any TorchScript file serves whose module takes images
of bytes (n, 3, height, width), scales them itself, and with `return_features=True` gives features
(n, k): the file `inception-2015-12-05.pt` that StyleGAN's metrics use is one, with k = 2048. FIDs are
comparable only between features of the same file.

References:
    Heusel, Ramsauer, Unterthiner, Nessler, Hochreiter, *GANs trained by a two time-scale update rule*
    (2017). Karras, Aittala, Hellsten, Laine, Lehtinen, Aila, *Training generative adversarial networks
    with limited data* (2020).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from privot.core.errors import PrivotError

_AT_ONCE = 64


class InceptionFeatures:
    """Features of images by a network in a TorchScript file.

    Arguments:
        file: The network.
        shape: `(height, width)` or `(height, width, channels)` of the images, 1 or 3 channels.

    Raises:
        PrivotError: if the file holds no network, or images have other numbers of channels.
    """

    def __init__(self, file: Path, shape: tuple[int, ...]) -> None:
        height, width, *channels = shape
        if channels not in ([], [1], [3]):
            raise PrivotError(f"shape {shape}: give images of one channel, or of three")
        self._shape = (height, width, *(channels or [1]))
        try:
            self._network = torch.jit.load(str(file)).eval()
        except (RuntimeError, ValueError) as error:
            raise PrivotError(
                f"inception {file} is no TorchScript file: give one such as inception-2015-12-05.pt"
            ) from error

    @torch.no_grad()
    def __call__(self, images: Tensor) -> np.ndarray:
        """Features (n, k) of images (n, height · width · channels) in [−1, 1]."""
        pixels = (127.5 * (images + 1)).round().clamp(0, 255).to(torch.uint8)
        pixels = pixels.reshape(-1, *self._shape).movedim(-1, 1).expand(-1, 3, -1, -1)
        parts = [
            self._network(part.contiguous(), return_features=True).float()
            for part in pixels.split(_AT_ONCE)
        ]
        features: np.ndarray = torch.cat(parts).double().numpy()
        return features

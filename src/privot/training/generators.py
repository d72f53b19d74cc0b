"""Generator networks from latents to features, without or with labels; independent of privacy.

References:
    Radford, Metz, Chintala, *Unsupervised representation learning with deep convolutional generative
    adversarial networks* (2016), for `DCGAN`.
"""

from itertools import pairwise
from math import prod
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from privot.core.errors import PrivotError, require_choice
from privot.training import Architecture


class MLP(nn.Module):
    r"""Multilayer perceptron $G(z) = W_L\, φ(… φ(W_1 z + b_1) …) + b_L$ with $z ∼ N(0, I)$.

    φ is a leaky rectifier of slope 0.1: piecewise linear, so few units suffice for edges and clusters.

    Arguments:
        latent_dim: Dimension of z.
        num_features: Dimension of G(z).
        hidden: Widths of the hidden layers.
        seed: Seed of the initial weights.
    """

    def __init__(
        self,
        latent_dim: int,
        num_features: int,
        hidden: tuple[int, ...] = (256, 256),
        seed: int = 0,
    ) -> None:
        super().__init__()
        if latent_dim < 1 or num_features < 1 or any(width < 1 for width in hidden):
            raise PrivotError(
                f"latent_dim {latent_dim}, num_features {num_features}, hidden {hidden}: "
                "give sizes of at least 1"
            )
        self.latent_dim, self.num_features, self.hidden = latent_dim, num_features, tuple(hidden)
        self.architecture: Architecture = "mlp"
        widths = [latent_dim, *hidden]
        layers: list[nn.Module] = []
        # Layers draw their weights from PyTorch's global generator: it is seeded, then restored.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for width_in, width_out in pairwise(widths):
                layers += [nn.Linear(width_in, width_out), nn.LeakyReLU(0.1)]
            layers.append(nn.Linear(widths[-1], num_features))
        self.layers = nn.Sequential(*layers)

    def forward(self, latent: Tensor) -> Tensor:
        """Return features (n, num_features) of latents (n, latent_dim)."""
        features: Tensor = self.layers(latent)
        return features

    def draw_latent(self, num_rows: int, rng: torch.Generator) -> Tensor:
        """Draw standard normal latents (num_rows, latent_dim) on the generator's device."""
        latent = torch.randn(num_rows, self.latent_dim, generator=rng)
        return latent.to(next(self.parameters()).device)


class DCGAN(nn.Module):
    r"""Image generator by transposed convolutions, each of which doubles the side of the image.

    With L hidden layers and images of side s, the first layer turns z into `hidden[0]` channels of side
    s/2^L. Each hidden layer is followed by batch normalization, a rectifier and a 4 × 4 transposed
    convolution of stride 2. Outputs are unbounded: the caller maps them to pixels. As published, initial
    weights are N(0, 0.02²) and latents uniform on [−1, 1]^k; 64 × 64 images take four hidden layers.

    Batch normalization makes images depend on their batch; a saved model uses running statistics.

    Arguments:
        latent_dim: Dimension k of z.
        shape: `(height, width)` or `(height, width, channels)`; sides not divisible by 2^L are refused.
        hidden: Channels of the hidden layers.
        batch_norm: Whether hidden layers are normalized.
        seed: Seed of the initial weights.

    Examples:
        >>> faces = DCGAN(latent_dim=100, shape=(64, 64, 3), hidden=(512, 256, 128, 64))
        >>> faces(faces.draw_latent(2, torch.Generator())).shape, 64 * 64 * 3
        (torch.Size([2, 12288]), 12288)
    """

    def __init__(
        self,
        latent_dim: int,
        shape: tuple[int, ...],
        hidden: tuple[int, ...] = (256, 256),
        batch_norm: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if len(shape) not in (2, 3):
            raise PrivotError(
                f"shape {shape} is no image's: give (height, width) or (height, width, channels), or "
                "use an MLP"
            )
        height, width, *channels = shape
        factor = 2 ** len(hidden)
        if height % factor or width % factor or not hidden:
            raise PrivotError(
                f"hidden {hidden}: each layer doubles the sides, and {height} × {width} are no "
                f"multiples of {factor}: give another number of layers, at least 1"
            )
        self.latent_dim, self.num_features, self.hidden = latent_dim, prod(shape), tuple(hidden)
        self.architecture: Architecture = "dcgan" if batch_norm else "dcgan_unnormalized"
        layers: list[nn.Module] = []
        # Layers draw their weights from PyTorch's global generator: it is seeded, then restored.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            first = (height // factor, width // factor)
            layers.append(nn.ConvTranspose2d(latent_dim, hidden[0], first))
            for width_in, width_out in pairwise((*hidden, *(channels or [1]))):
                layers += [nn.BatchNorm2d(width_in)] if batch_norm else []
                layers += [nn.ReLU(), nn.ConvTranspose2d(width_in, width_out, 4, 2, 1)]
            for layer in layers:
                if isinstance(layer, nn.ConvTranspose2d):
                    nn.init.normal_(layer.weight, 0.0, 0.02)
                if isinstance(layer, nn.BatchNorm2d):
                    nn.init.normal_(layer.weight, 1.0, 0.02)
        self.layers = nn.Sequential(*layers)

    def forward(self, latent: Tensor) -> Tensor:
        """Return features (n, height · width · channels) of latents (n, latent_dim)."""
        images: Tensor = self.layers(latent[:, :, None, None])
        return images.movedim(1, -1).flatten(1)

    def draw_latent(self, num_rows: int, rng: torch.Generator) -> Tensor:
        """Draw uniform latents (num_rows, latent_dim) on the generator's device."""
        latent = 2 * torch.rand(num_rows, self.latent_dim, generator=rng) - 1
        return latent.to(next(self.parameters()).device)


def make_network(
    architecture: Architecture,
    latent_dim: int,
    shape: tuple[int, ...],
    hidden: tuple[int, ...],
    seed: int = 0,
) -> MLP | DCGAN:
    """Return a network with `prod(shape)` outputs; for a DCGAN, `shape` is that of an image."""
    require_choice("architecture", architecture, get_args(Architecture))
    if architecture == "mlp":
        return MLP(latent_dim, prod(shape), hidden, seed)
    return DCGAN(latent_dim, shape, hidden, architecture == "dcgan", seed)


class Conditional(nn.Module):
    r"""Conditional generator, whose network takes a latent and a label.

    $$ G(z, c) = N\big((z, \mathrm{e}_c)\big), \qquad c ∼ p $$

    where $e_c$ is the unit vector of label c. The output consists of the network's features and of
    $e_c$. So a labeled image is *one* record, and the costs of its privatized label and pixels are
    added.

    Arguments:
        network: Network N, whose inputs have the dimension of z plus the number of labels.
        shares: Probabilities p of labels (num_labels,), public or estimated from reports, of sum 1.

    Examples:
        >>> generator = Conditional(MLP(latent_dim=2 + 3, num_features=4), torch.ones(3) / 3)
        >>> latent = generator.draw_latent(5, torch.Generator(), labels=torch.tensor([0, 1, 2, 2, 1]))
        >>> generator(latent).shape, generator(latent)[:, 4:].argmax(dim=1).tolist()
        (torch.Size([5, 7]), [0, 1, 2, 2, 1])
    """

    shares: Tensor

    def __init__(self, network: MLP | DCGAN, shares: Tensor) -> None:
        super().__init__()
        if shares.ndim != 1 or not 1 <= len(shares) < network.latent_dim:
            raise PrivotError(
                f"shares has shape {tuple(shares.shape)}: give a vector with one share for each label, "
                f"and fewer labels than the network has inputs ({network.latent_dim})"
            )
        if not (bool((shares >= 0).all()) and abs(float(shares.sum()) - 1) < 1e-4):
            raise PrivotError(f"shares {shares.tolist()} are no probabilities: make them sum to 1")
        self.network = network
        self.register_buffer("shares", shares.clone())
        self.num_labels = len(shares)
        self.latent_dim = network.latent_dim
        self.num_features = network.num_features + self.num_labels

    def forward(self, latent: Tensor) -> Tensor:
        """Return features and unit vectors (n, num_features) of latents (n, latent_dim)."""
        return torch.cat([self.network(latent), latent[:, -self.num_labels :]], dim=1)

    def draw_latent(
        self, num_rows: int, rng: torch.Generator, labels: Tensor | None = None
    ) -> Tensor:
        """Draw latents (num_rows, latent_dim) whose last coordinates are the label's unit vector.

        Arguments:
            num_rows: Number of latents.
            rng: Random generator of z, and of the labels if none are given.
            labels: Labels (num_rows,); by default drawn with probabilities `shares`.
        """
        if labels is None:
            labels = torch.multinomial(self.shares.cpu(), num_rows, replacement=True, generator=rng)
        z = self.network.draw_latent(num_rows, rng)[:, : -self.num_labels]
        hot = functional.one_hot(labels.to(z.device), self.num_labels)
        return torch.cat([z, hot.to(z)], dim=1)


def torch_generator(rng: np.random.Generator) -> torch.Generator:
    """Return a PyTorch generator seeded with a draw from NumPy's generator."""
    return torch.Generator().manual_seed(int(rng.integers(2**63)))

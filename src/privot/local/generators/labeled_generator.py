r"""A generator of labeled images: the label is drawn first, and the image given it.

$$ c ∼ p, \qquad \text{image} = G(z, c) , $$

so that every image knows its label, and any label's images can be drawn. p is estimated from the
privatized labels: randomized response keeps a label with probability s and reports any given other one
with probability t, so the shares r of the reported labels satisfy $r_c = t + (s − t) p_c$, which is
solved for p. Post-processing of the release, as all of training.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from privot.generators import MLP, Conditional
from privot.local.likelihood.heads import Head
from privot.mechanisms import RandomizedResponse
from privot.release import Release

# Logits of the label's unit vector: e^−40 is no probability.
_CERTAIN = 40.0
_LEAST_SHARE = 1e-3


class LabeledGenerator(nn.Module):
    """Features of an image and a label, in the order of the head's columns.

    Arguments:
        head: Of one image and one coded column.
        latent_dim: Dimension of z.
        hidden: Widths of the hidden layers.
        shares: Probability p of each label.
        seed: Of the initial weights.
    """

    def __init__(
        self,
        head: Head,
        latent_dim: int,
        hidden: tuple[int, ...],
        shares: Tensor,
        seed: int = 0,
    ) -> None:
        super().__init__()
        (image,), (self.label,) = head.images, head.coded
        self._image_first = next(iter(head.widths)) == image
        self.hidden, self.latent_dim = hidden, latent_dim
        network = MLP(latent_dim + len(shares), head.widths[image], hidden, seed)
        self.conditional = Conditional(network, shares)
        self.num_features = self.conditional.num_features

    @property
    def mlp(self) -> MLP:
        """The network from latents and labels to images."""
        network = self.conditional.network
        assert isinstance(network, MLP)
        return network

    def forward(self, latent: Tensor) -> Tensor:
        """Features (n, num_features) of latents that end with the label's unit vector."""
        features = self.conditional(latent)
        image, hot = features.tensor_split([self.mlp.num_features], dim=1)
        parts = (image, _CERTAIN * hot) if self._image_first else (_CERTAIN * hot, image)
        return torch.cat(parts, dim=1)

    def draw_latent(
        self, num_rows: int, rng: torch.Generator, labels: Tensor | None = None
    ) -> Tensor:
        """Latents (num_rows, latent_dim + K), of given labels (num_rows,) or such as p draws."""
        return self.conditional.draw_latent(num_rows, rng, labels)


def label_shares(release: Release, name: str) -> Tensor:
    """The p of the module's equation, each label's share held above a thousandth."""
    mechanism = release.randomizer.mechanisms[name]
    assert isinstance(mechanism, RandomizedResponse)
    kept, other = mechanism.probabilities
    codes = torch.as_tensor(release.reports(name)[0][:, 0], dtype=torch.int64)
    reported = torch.bincount(codes, minlength=mechanism.num_values).double() / len(codes)
    shares = ((reported - other) / (kept - other)).clamp_min(_LEAST_SHARE)
    return (shares / shares.sum()).float()

"""What a sliced model draws from: class factors of images, or a network from latents and labels.

Both give coordinates for labels: those of an image's pixels or frequencies, or of a table's row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from privot.generators import MLP
from privot.sliced.factors import Factors
from privot.sliced.images import LabeledImages
from privot.sliced.tables import TableRecords

# The maps whose records can be drawn again.
Records = LabeledImages | TableRecords


class Sampler(Protocol):
    """A distribution of raw values given labels."""

    kind: ClassVar[str]

    @property
    def shares(self) -> Tensor:
        """Probability of each label."""

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """One record's raw values for each label: images in [0, 1], or coordinates of a row."""

    def shape(self) -> dict[str, Any]:
        """What is needed, beside the tensors, to build it again."""

    def tensors(self) -> dict[str, Tensor]:
        """Its numbers."""


@dataclass(frozen=True, eq=False)
class FactorSampler:
    """Images from class factors, with independent Gaussian noise of `dither` on their pixels.

    Low-pass images lack what real ones have in high frequencies, and factors are known up to noise:
    a classifier trained on smooth images relies on directions that real ones fill with something
    else. Noise on all pixels does for it what a ridge does for a covariance.
    """

    factors: Factors
    records: LabeledImages
    dither: float = 0.0
    kind: ClassVar[str] = "factors"

    @property
    def shares(self) -> Tensor:
        """See `Sampler`."""
        return self.factors.shares

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """See `Sampler`."""
        images = self.records.expand(self.factors.coordinates(labels, rng))
        if self.dither:
            images = images + self.dither * torch.randn(images.shape, generator=rng)
        return images.clamp(0.0, 1.0)

    def shape(self) -> dict[str, Any]:
        """See `Sampler`."""
        return {"dither": self.dither}

    def tensors(self) -> dict[str, Tensor]:
        """See `Sampler`."""
        f = self.factors
        return {"shares": f.shares, "means": f.means, "factors": f.factors}

    @classmethod
    def build(
        cls, records: Records, shape: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> FactorSampler:
        """The sampler that `shape` and `tensors` describe."""
        assert isinstance(records, LabeledImages)
        return cls(Factors(**dict(tensors)), records, shape["dither"])


class LabeledNetwork(nn.Module):
    """A multilayer perceptron from (z, one-hot label) to raw values of a record map.

    Every record is made from its own latent and label alone: there is no batch norm.
    """

    kind: ClassVar[str] = "network"

    def __init__(
        self, records: Records, latent_dim: int, hidden: tuple[int, ...], seed: int = 0
    ) -> None:
        super().__init__()
        self.records, self.latent_dim = records, latent_dim
        labels = records.num_labels if records.num_labels > 1 else 0
        outputs = (
            records.num_coordinates
            if isinstance(records, TableRecords)
            else int(torch.tensor(records.shape).prod())
        )
        self.network = MLP(latent_dim + labels, outputs, hidden, seed)

    @property
    def shares(self) -> Tensor:
        """Every label alike: that is assumed in public."""
        return torch.full((self.records.num_labels,), 1.0 / self.records.num_labels)

    def forward(self, latent: Tensor, labels: Tensor) -> Tensor:
        """Raw values of latents (n, latent_dim) and labels (n,)."""
        count = self.records.num_labels
        if count > 1:
            latent = torch.cat([latent, nn.functional.one_hot(labels, count).to(latent)], dim=1)
        raw: Tensor = self.network(latent)
        if isinstance(self.records, TableRecords):
            return self.records.activate(raw)
        return torch.sigmoid(raw).reshape(-1, *self.records.shape)

    def draw(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """Raw values for labels, from fresh latents."""
        values: Tensor = self(torch.randn(len(labels), self.latent_dim, generator=rng), labels)
        return values

    @torch.no_grad()
    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """See `Sampler`."""
        return self.draw(labels, rng)

    def shape(self) -> dict[str, Any]:
        """See `Sampler`."""
        return {"latent_dim": self.latent_dim, "hidden": list(self.network.hidden)}

    def tensors(self) -> dict[str, Tensor]:
        """See `Sampler`."""
        return {k: v.detach().contiguous() for k, v in self.state_dict().items()}

    @classmethod
    def build(
        cls, records: Records, shape: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> LabeledNetwork:
        """The sampler that `shape` and `tensors` describe."""
        network = cls(records, shape["latent_dim"], tuple(shape["hidden"]))
        network.load_state_dict(dict(tensors))
        network.eval()
        return network


SAMPLERS = {cls.kind: cls for cls in (FactorSampler, LabeledNetwork)}

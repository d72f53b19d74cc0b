"""What labeled vectors are drawn from: a label, one of its components, a Gaussian cut to the bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from privot.generators import torch_generator
from privot.sliced.law import PIECE
from privot.sliced.mixtures.vectors import LabeledVectors
from privot.sliced.records import Records
from privot.sliced.tensor_law import TensorLaw


@dataclass(frozen=True, eq=False)
class VectorMixture(TensorLaw):
    """Mixtures of Gaussians on [−1, 1]^d, one mixture for each label.

    Arguments:
        shares: Probability of each label.
        weights: Of each label's components (labels, K).
        means: Of components (labels, K, d).
        roots: Of their covariances (labels, K, d, d).
    """

    kind: ClassVar[str] = "vectors"

    shares: Tensor
    weights: Tensor
    means: Tensor
    roots: Tensor

    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """A point (n, d) of the cube for each label."""
        of = torch.zeros_like(labels)
        if len(labels):
            weights = self.weights[labels]
            of = torch.multinomial(weights, 1, replacement=True, generator=rng)[:, 0]
        noise = torch.randn(len(labels), self.means.shape[2], 1, generator=rng)
        drawn = torch.empty(len(labels), self.means.shape[2])
        for component in range(self.means.shape[1]):
            own = of == component
            waves = (self.roots[labels[own], component] @ noise[own])[..., 0]
            drawn[own] = self.means[labels[own], component] + waves
        return drawn.clamp(-1.0, 1.0)

    def pieces(
        self, records: Records, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Law`; a condition may name the label."""
        rng_torch = torch_generator(rng)
        vectors = LabeledVectors(records.schema)
        wanted = vectors.wanted(where)
        shares = self.shares * wanted
        if not shares.sum():  # labels that were lost in the noise
            shares = wanted
        labels = torch.empty(0, dtype=torch.int64)
        if num_rows:
            labels = torch.multinomial(shares, num_rows, replacement=True, generator=rng_torch)
        for part in labels.split(PIECE):
            yield vectors.decode(self.values(part, rng_torch), part, rng_torch)

    def fields(self) -> dict[str, Any]:
        """See `Law`."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """See `Law`."""
        names = ("shares", "weights", "means", "roots")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_tensors(
        cls, records: Records, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Self:
        """See `Law`."""
        return cls(**tensors)

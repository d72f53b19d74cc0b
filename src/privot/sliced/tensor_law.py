"""Laws whose numbers are tensors: of labeled images and vectors, and networks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.generators import torch_generator
from privot.sliced.law import PIECE, Law
from privot.sliced.records import Records


class TensorLaw(Law):
    """A law with tensors, written as arrays."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Its numbers."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Law`."""
        return {name: x.detach().cpu().numpy() for name, x in self.tensors().items()}

    @classmethod
    @abstractmethod
    def of_tensors(
        cls, records: Records, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Self:
        """The law of these fields and tensors."""

    @classmethod
    def build(
        cls, records: Records, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """See `Law`."""
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return cls.of_tensors(records, fields, tensors)


class LabeledLaw(TensorLaw):
    """A law of raw values given labels.

    Arguments:
        shares: Probability of each label.
    """

    shares: Tensor

    @abstractmethod
    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """One record's raw values for each label."""

    def pieces(
        self, records: Records, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Law`; a condition may name the label of images."""
        rng_torch = torch_generator(rng)
        shares = self.shares * records.wanted(where)
        if not shares.sum():  # labels whose class was lost in the noise
            shares = records.wanted(where)
        labels = torch.empty(0, dtype=torch.int64)
        if num_rows:
            labels = torch.multinomial(shares, num_rows, replacement=True, generator=rng_torch)
        for part in labels.split(PIECE):
            yield records.decode(self.values(part, rng_torch), part, rng_torch)

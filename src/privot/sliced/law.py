"""Laws of records: what a model draws from, whatever released it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import pyarrow as pa
import torch
from torch import Tensor

from privot.sliced.records import Records

PIECE = 16_384  # rows drawn at once


class Law(ABC):
    """A distribution of records."""

    kind: ClassVar[str]

    @abstractmethod
    def pieces(
        self, records: Records, num_rows: int, rng: torch.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """Records that meet a condition, in pieces."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """What is needed, beside the tensors, to build it again."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Its numbers."""

    @classmethod
    @abstractmethod
    def build(
        cls, records: Records, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Self:
        """The law of these fields and tensors."""


class LabeledLaw(Law):
    """A law of raw values given labels.

    Arguments:
        shares: Probability of each label.
    """

    shares: Tensor

    @abstractmethod
    def values(self, labels: Tensor, rng: torch.Generator) -> Tensor:
        """One record's raw values for each label."""

    def pieces(
        self, records: Records, num_rows: int, rng: torch.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Law`; a condition may name the label of images."""
        shares = self.shares * records.wanted(where)
        if not shares.sum():  # labels whose class was lost in the noise
            shares = records.wanted(where)
        labels = torch.empty(0, dtype=torch.int64)
        if num_rows:
            labels = torch.multinomial(shares, num_rows, replacement=True, generator=rng)
        for part in labels.split(PIECE):
            yield records.decode(self.values(part, rng), part, rng)

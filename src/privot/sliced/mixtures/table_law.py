"""Latent classes as what a curator's table is drawn from: conditions on any column, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa
import torch
from torch import Tensor

from privot.local.classes.sampler import LatentClassSampler
from privot.local.model import read_condition
from privot.sliced.law import PIECE, Law
from privot.sliced.records import Records


@dataclass(frozen=True, eq=False)
class TableMixture(Law):
    """A mixture of products over a table's columns.

    Arguments:
        sampler: What draws rows of it.
    """

    kind: ClassVar[str] = "classes"

    sampler: LatentClassSampler

    def pieces(
        self, records: Records, num_rows: int, rng: torch.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Law`."""
        condition = read_condition(records.schema, where)
        names = list(records.schema.table_columns)
        for start in range(0, max(num_rows, 1), PIECE):
            rows = min(PIECE, num_rows - start)
            yield self.sampler.records(rows, rng, condition).select(names)

    def fields(self) -> dict[str, Any]:
        """See `Law`."""
        return self.sampler.shape()

    def tensors(self) -> dict[str, Tensor]:
        """See `Law`."""
        return self.sampler.tensors()

    @classmethod
    def build(
        cls, records: Records, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> Self:
        """See `Law`."""
        return cls(LatentClassSampler.stored(records.schema, fields, tensors))

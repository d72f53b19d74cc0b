"""Latent classes as what a curator's table is drawn from: conditions on any column, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.local.classes.sampler import LatentClassSampler
from privot.local.model import read_condition
from privot.sliced.law import PIECE, Law, SchemaRecords


@dataclass(frozen=True, eq=False)
class TableMixture(Law):
    """A mixture of products over a table's columns.

    Arguments:
        sampler: What draws rows of it.
    """

    kind: ClassVar[str] = "classes"

    sampler: LatentClassSampler

    def pieces(
        self,
        records: SchemaRecords,
        num_rows: int,
        rng: np.random.Generator,
        where: Mapping[str, Any],
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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Law`."""
        return self.sampler.arrays()

    @classmethod
    def build(
        cls, records: SchemaRecords, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """See `Law`."""
        return cls(LatentClassSampler.stored(records.schema, fields, arrays))

"""Rows of vectors and at most one label: points of a cube, and codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from privot.local.model import read_condition
from privot.schema import Schema, from_unit

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LabeledVectors:
    """Rows of a schema as points of [−1, 1]^d, and the codes of their label.

    Arguments:
        schema: Vectors in boxes, none of which may be missing, and at most one column of codes.

    Examples:
        >>> vectors = LabeledVectors(Schema.from_dict({"columns": {
        ...     "place": {"kind": "vector", "columns": list("wxyz"), "bounds": [[0, 1]] * 4},
        ...     "sick": {"kind": "boolean"},
        ... }}))
        >>> vectors.label, vectors.num_labels, vectors.dimension
        ('sick', 2, 4)
    """

    schema: Schema

    @property
    def label(self) -> str | None:
        """The column of codes, if there is one."""
        return next(iter(self.schema.coded), None)

    @property
    def num_labels(self) -> int:
        """Codes of the label; 1 without."""
        return 1 if self.label is None else self.schema.coded[self.label].alphabet.size

    @cached_property
    def _widths(self) -> dict[str, int]:
        points = self.schema.points
        return {n: points[n].domain.dimension for n in self.schema.columns if n != self.label}

    @property
    def dimension(self) -> int:
        """Coordinates d of a row."""
        return sum(self._widths.values())

    def encode(self, table: pa.Table) -> tuple[Tensor, Tensor]:
        """Points (n, d) of [−1, 1]^d and labels (n,); what lies beyond bounds is moved to them."""
        parts = [self.schema.points[name].encode_units(name, table) for name in self._widths]
        labels = np.zeros(table.num_rows, np.int64)
        if self.label is not None:
            labels = self.schema.coded[self.label].encode_codes(self.label, table)
        points = np.clip(np.concatenate(parts, axis=1), -1.0, 1.0)
        return torch.from_numpy(points), torch.from_numpy(labels)

    def decode(self, points: Tensor, labels: Tensor, rng: torch.Generator) -> pa.Table:
        """A table of points (n, d) of the cube and labels (n,)."""
        columns: dict[str, pa.Array] = {}
        within = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        parts = points.double().split(list(self._widths.values()), dim=1)
        for (name, _), part in zip(self._widths.items(), parts, strict=True):
            column = self.schema.points[name]
            columns |= column.decode_points(name, from_unit(column.domain, part.numpy()))
        if self.label is not None:
            coded = self.schema.coded[self.label]
            columns |= coded.decode_codes(self.label, labels.numpy(), within)
        return pa.table(columns).select(list(self.schema.table_columns))

    def wanted(self, where: Mapping[str, Any]) -> Tensor:
        """Which labels (num_labels,) meet a condition.

        Raises:
            PrivotError: for another column, or a value that the schema does not declare.
        """
        wanted = torch.ones(self.num_labels)
        for codes in read_condition(self.schema, where).values():
            wanted = torch.zeros(self.num_labels)
            wanted[codes] = 1.0
        return wanted

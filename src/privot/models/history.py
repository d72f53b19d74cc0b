"""What happened during training: one row every few steps, kept as Parquet beside the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ("step", "loss", "learning_rate", "marginal_error", "seconds")


@dataclass
class History:
    """Rows of (step, mean loss since the last row, learning rate, marginal error, seconds)."""

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def __getitem__(self, column: str) -> np.ndarray:
        """One column as an array."""
        return np.array([row[COLUMNS.index(column)] for row in self.rows])

    def save(self, path: Path) -> None:
        """Write `history.parquet`."""
        pq.write_table(pa.table({name: self[name] for name in COLUMNS}), path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read `history.parquet`."""
        table = pq.read_table(path)
        columns = [table.column(name).to_pylist() for name in COLUMNS]
        return cls(list(zip(*columns, strict=True)))

"""A curator's records as they are given, and what of them is compared between runs. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.release import as_table, read_table
from privot.release.reports.rows import require_raw
from privot.schema import Schema

_CHUNK = 4096


def raw_table(data: Any, schema: Schema) -> pa.Table:
    """A curator's records as they are given, a table or its file, checked against the schema."""
    table = read_table(data, schema) if isinstance(data, str | Path) else as_table(data)
    schema.check_table(require_raw(table))
    return table


def whole_records(*parts: NDArray[Any]) -> Iterator[NDArray[np.float32]]:
    """Records as accounts compare them (`privot.disk.accounts`), in chunks: all parts side by side.

    Arguments:
        parts: Arrays (n, …) of the same n records: values, then labels. Values without a label have
            label 0, whoever fits them, so that all methods compare the same records alike. Labels, whole
            numbers below 2^24, are exact in single precision.

    >>> [rows.tolist() for rows in whole_records(np.zeros((2, 1, 2)), np.array([0, 3]))]
    [[[0.0, 0.0, 0.0], [0.0, 0.0, 3.0]]]
    """
    for start in range(0, len(parts[0]), _CHUNK):
        with np.errstate(over="ignore"):  # numbers too large are infinity in single precision
            chunk = [np.asarray(part[start : start + _CHUNK], np.float32) for part in parts]
        yield np.concatenate([part.reshape(len(part), -1) for part in chunk], axis=1)

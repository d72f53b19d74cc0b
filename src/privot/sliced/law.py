"""Laws of records: what a model draws from, whatever released it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.schema import Schema

PIECE = 16_384  # rows drawn at once


class SchemaRecords(Protocol):
    """What records are to a law: rows of a schema, and plain values that make the same map again."""

    @property
    def schema(self) -> Schema:
        """What one record may be."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""


class Law(ABC):
    """A distribution of records."""

    kind: ClassVar[str]

    @abstractmethod
    def pieces(
        self, records: Any, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """Records that meet a condition, in pieces."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """What is needed, beside the arrays, to build it again."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its numbers."""

    @classmethod
    @abstractmethod
    def build(
        cls, records: Any, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """The law of these fields and arrays."""

"""Categories of a public list, and the two of a yes or no."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import model_validator

from privot.errors import PrivotError
from privot.schema.columns.alphabet import Categories, Codes
from privot.schema.columns.column import CodedColumn
from privot.schema.columns.raw_values import Problem, missing, read_categories, read_texts

_TRUE, _FALSE = ("true", "t", "yes", "1"), ("false", "f", "no", "0")
_UNLISTED = "\uffff unlisted"


class _ListedColumn(CodedColumn):
    """A column whose values stand in a public list."""

    @property
    @abstractmethod
    def alphabet(self) -> Categories:
        """The list, and the missing value."""

    @property
    @abstractmethod
    def _values(self) -> pa.Array:
        """What a table holds for each code, null for the missing value."""

    @abstractmethod
    def _find(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Codes of texts, null for what is not listed."""

    def read(self, name: str, table: pa.Table) -> tuple[Codes, list[Problem]]:
        """Codes (n,)."""
        texts, problems = read_texts(table.column(name), name)
        if "" not in self.alphabet.names:  # an empty field of a CSV
            texts = pc.if_else(pc.equal(texts, ""), None, texts)
        listed = self._find(texts)
        absent = np.asarray(texts.is_null())
        codes = np.array(pc.fill_null(listed, 0).to_numpy(), dtype=np.int64)
        other = self.alphabet.other
        if other is None:
            problems += read_categories(texts, name, self.alphabet.names, listed)
        else:
            codes[np.asarray(listed.is_null())] = self.alphabet.names.index(other)
        codes[absent] = self.alphabet.size - 1
        return codes, problems + missing(absent, self.nullable, name, problems)

    def decode_codes(
        self, name: str, codes: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`."""
        return {name: self._values.take(pa.array(codes))}


class CategoricalColumn(_ListedColumn):
    """One of a public list of categories.

    Arguments:
        categories: The list.
        other: The category, one of the list or one more, that stands for whatever is not listed;
            without it, a value that is not listed is refused.
        nullable: Whether it may be missing.
    """

    kind: Literal["categorical"]
    categories: tuple[str, ...]
    other: str | None = None

    @cached_property
    def alphabet(self) -> Categories:
        """The categories, `other`, and the missing value."""
        more = () if self.other is None or self.other in self.categories else (self.other,)
        return Categories(self.categories + more, self.other, self.nullable)

    @property
    def _values(self) -> pa.Array:
        return pa.array([*self.alphabet.names, None], pa.string())

    def _find(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.index_in(texts, value_set=pa.array(self.alphabet.names))

    def make_up_codes(
        self, name: str, codes: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`: half of those of `other` are not listed."""
        outside = rng.random(len(codes)) < 0.5
        made = self.decode_codes(name, codes, rng)
        if self.other is None:
            return made
        unlisted = outside & (codes == self.alphabet.names.index(self.other))
        return {name: pa.array(np.where(unlisted, _UNLISTED, made[name].to_pylist()))}

    @model_validator(mode="after")
    def _check(self) -> Self:
        repeated = sorted({c for c in self.categories if self.categories.count(c) > 1})
        if repeated:
            raise PrivotError(f"categories {repeated} are declared twice: declare each once")
        if not self.categories or self.alphabet.size < 2:
            raise PrivotError(
                f"categories {list(self.categories)} leave nothing to hide: declare at least two"
            )
        return self


class BooleanColumn(_ListedColumn):
    """True or false."""

    kind: Literal["boolean"]

    @property
    def alphabet(self) -> Categories:
        """False, true, and the missing value."""
        return Categories(("false", "true"), None, self.nullable)

    @property
    def _values(self) -> pa.Array:
        return pa.array([False, True, None])

    def _find(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        place = pc.index_in(pc.utf8_lower(texts), value_set=pa.array(_FALSE + _TRUE))
        listed = pc.cast(pc.greater_equal(place, len(_FALSE)), pa.int32())
        return pc.if_else(pc.is_null(place), None, listed)

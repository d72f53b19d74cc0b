"""Columns with a public list of values: categories and booleans."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.random import Generator
from pydantic import model_validator

from privot.core.errors import PrivotError
from privot.schema.columns import raw_values
from privot.schema.columns.alphabet import Categories, Codes
from privot.schema.columns.column import CodedColumn, TableColumns

_TRUE, _FALSE = ("true", "t", "yes", "1"), ("false", "f", "no", "0")
_UNLISTED = "\uffff unlisted"  # a test value that no list has


class _ListedColumn(CodedColumn):
    """Base of columns with a public list of values."""

    @property
    @abstractmethod
    def alphabet(self) -> Categories:
        """Listed values, and the missing value."""

    @property
    def _values(self) -> pa.Array:
        """Table values (K,) of the codes; null for the missing value."""
        return pa.array([*self.alphabet.names, None], pa.string())

    @cached_property
    def _codes(self) -> Mapping[str, int]:
        """Code of every text that a table may contain."""
        return {name: code for code, name in enumerate(self.alphabet.names)}

    def code_program(self, name: str, codings: Sequence[Any]) -> dict[str, Any] | None:
        names, other = self.alphabet.names, self.alphabet.other
        other_code = None if other is None else names.index(other)
        encoding = {"take": "category", "columns": [name], "values": list(names)}
        return encoding | {"other": other_code, "missing": self.alphabet.missing}

    def read(self, name: str, table: pa.Table) -> tuple[Codes, list[raw_values.Problem]]:
        """Return (codes (n,), all problems of the raw values)."""
        values, last = table.column(name), self.alphabet.size - 1
        is_truth = self.in_rules == "truth"
        if is_truth and values.type == pa.bool_():  # truth values are codes already
            codes = values.cast(pa.int8()).fill_null(last).to_numpy().astype(np.int64)
            absent = np.asarray(values.is_null())
            return codes, raw_values.missing_values(absent, self.nullable, name, [])
        texts, problems = raw_values.read_texts(values, name)
        if is_truth:
            texts = pc.utf8_lower(texts)
        names, other = self.alphabet.names, self.alphabet.other
        places = raw_values.find_texts(texts, self._codes)
        unlisted = places < 0
        absent = places >= len(self._codes)  # null, or an empty field that is not listed
        codes = np.array([*self._codes.values()])[np.where(unlisted | absent, 0, places)]
        codes[absent] = last
        if other is None:
            problems += raw_values.explain_unlisted(texts, name, names, unlisted)
        else:
            codes[unlisted] = names.index(other)
        return codes, problems + raw_values.missing_values(absent, self.nullable, name, problems)

    def decode_codes(self, name: str, codes: Codes, rng: Generator) -> TableColumns:
        return {name: self._values.take(pa.array(codes))}


class CategoricalColumn(_ListedColumn):
    """Column whose values are categories of a public list.

    Arguments:
        categories: Public list of categories.
        other: Category, of the list or additional, that stands for all unlisted values; without
            it, an unlisted value is refused.
        nullable: Whether a value may be missing.

    Examples:
        >>> column = CategoricalColumn(kind="categorical", categories=("red", "blue"), other="else")
        >>> column.alphabet.names
        ('red', 'blue', 'else')
    """

    kind: Literal["categorical"]
    categories: tuple[str, ...]
    other: str | None = None

    in_rules = "text"

    @cached_property
    def alphabet(self) -> Categories:
        """The categories, `other`, and the missing value."""
        others = () if self.other is None else (self.other,)
        names = tuple(dict.fromkeys(self.categories + others))
        return Categories(names, self.other, self.nullable)

    def make_up_codes(self, name: str, coding: Any, codes: Codes, rng: Generator) -> TableColumns:
        """See `CodedColumn`; half of the rows with the code of `other` get an unlisted text."""
        outside = rng.random(len(codes)) < 0.5
        listed = self.decode_codes(name, codes, rng)
        if self.other is None:
            return listed
        unlisted = outside & (codes == self._codes[self.other])
        return {name: pa.array(np.where(unlisted, _UNLISTED, listed[name].to_pylist()))}

    def refined(self, name: str, drawn: pa.Table, rarest: float = 0.0) -> Self:
        """See `CodedColumn`; the most frequent category other than `other` is never merged."""
        codes = self.encode_codes(name, drawn)
        if self.other is None or not len(codes):
            return self
        frequencies = np.bincount(codes, minlength=self.alphabet.size) / len(codes)
        shares = {category: frequencies[self._codes[category]] for category in self.categories}
        retained = {category for category, share in shares.items() if share >= rarest}
        retained.add(max((c for c in shares if c != self.other), key=shares.__getitem__))
        retained.add(self.other)
        categories = tuple(category for category in self.categories if category in retained)
        return self.model_validate(self.model_dump() | {"categories": categories})

    def common_values(self, name: str, others: Sequence[CodedColumn]) -> TableColumns:
        """Return the categories of all declarations, an unlisted text, and the missing value."""
        lists = [self.alphabet, *(cast("CategoricalColumn", other).alphabet for other in others)]
        names = list(dict.fromkeys(value for listed in lists for value in listed.names))
        some_refuse_unlisted = any(listed.other is None for listed in lists)
        differ = any(listed.other or {*names} - {*listed.names} for listed in lists)
        if some_refuse_unlisted and differ:
            raise PrivotError(
                f"column {name!r} lists other categories in another release, and one of the two has "
                "no `other` for them, so that some people could not report: fit the releases apart"
            )
        unlisted = [_UNLISTED] * (self.other is not None)
        return {name: pa.array([*names, *unlisted, *[None] * self.nullable], pa.string())}

    @model_validator(mode="after")
    def _check(self) -> Self:
        repeated = sorted(name for name, times in Counter(self.categories).items() if times > 1)
        if repeated:
            raise PrivotError(f"categories {repeated} are declared twice: declare each once")
        if not self.categories or self.alphabet.size < 2:
            raise PrivotError(
                f"categories {list(self.categories)} leave nothing to hide: declare at least two"
            )
        return self


class BooleanColumn(_ListedColumn):
    """Column of truth values.

    Examples:
        >>> BooleanColumn(kind="boolean", nullable=True).alphabet.size
        3
    """

    kind: Literal["boolean"]

    in_rules = "truth"

    @cached_property
    def alphabet(self) -> Categories:
        """False, true, and the missing value."""
        return Categories(("false", "true"), None, self.nullable)

    def code_program(self, name: str, codings: Sequence[Any]) -> dict[str, Any]:
        return {"take": "boolean", "columns": [name], "missing": self.alphabet.missing}

    def find_code(self, name: str, value: object) -> int:
        """See `CodedColumn`; True and False may be given instead of their labels."""
        return super().find_code(name, str(value).lower() if isinstance(value, bool) else value)

    @property
    def _values(self) -> pa.Array:
        return pa.array([False, True, None])

    @cached_property
    def _codes(self) -> Mapping[str, int]:
        return dict.fromkeys(_FALSE, 0) | dict.fromkeys(_TRUE, 1)

r"""Identifiers: columns that are never reported or learned, and generated for samples.

A value that is different for everybody cannot be learned privately; programs that need one can use a
made-up one. Its **pattern** is public, a simple regular expression: literal characters, `\d` and
classes such as `[A-Z0-9]`, each optionally followed by a count, `{6}`.

**Distinct.** The characters of all places, read as digits of changing bases, number what fits a pattern:
0 … N − 1. The identifiers of one sample are the places 0, 1, 2, … under a keyed permutation of as
many of the last places as $2^{62}$ holds (a Feistel network of four rounds that walks on until it is
below N); what is before these is drawn. So no two are alike, however many pieces a sample has.

**Privacy review.** Adjacency: any two records. A table on a device may have the column or not: it is
dropped where records are read, and is in no report, no error and no count. Generated identifiers are a
function of the pattern and of the sample's coins.

References:
    Black, Rogaway, *Ciphers with arbitrary finite domains* (2002), for walking a permutation.
"""

from __future__ import annotations

import math
import re
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import model_validator

from privot.core.errors import PrivotError
from privot.schema.columns.column import Column
from privot.schema.columns.raw_values import Problem

_PART = re.compile(r"(?:\[((?:[^\]\\^]|\\.)+)\]|\\(.)|([^\[\]{}()|*+?.^$\\]))(?:\{(\d{1,3})\})?")
_RANGE = re.compile(r"(\\.|[^\\])-(\\.|[^\\])|\\(.)|(.)")
_DIGITS = "0123456789"
_MAX_PLACES, _MAX_PERMUTED = 100, 2**62
_ROUNDS = 4

Words = NDArray[np.uint64]


class IdentifierColumn(Column):
    r"""A name or number that is made up for every synthetic record, and never reported.

    Arguments:
        pattern: What it looks like: characters, `\d`, classes `[A-Z]`, each perhaps with a count `{6}`.

    Examples:
        >>> column = IdentifierColumn(kind="identifier", pattern=r"P-\d{6}")
        >>> column.size
        1000000
        >>> column.made_up(3, np.random.default_rng(0))(2).to_pylist()
        ['P-842848', 'P-592694']
    """

    kind: Literal["identifier"]
    pattern: str
    nullable: Literal[False] = False

    reported: ClassVar[bool] = False

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The characters that may stand in each place.

        Raises:
            PrivotError: for a pattern that is not of the plainest kind.
        """
        at, places = 0, []
        while at < len(self.pattern):
            part = _PART.match(self.pattern, at)
            listed = part and _characters(part)
            if not part or not listed or "\0" in listed:
                raise PrivotError(
                    f"pattern {self.pattern!r} cannot be read from {self.pattern[at:][:12]!r} on: write "
                    r"characters, \d or classes such as [A-Z0-9], each perhaps with a count such as {6}"
                )
            places += [listed] * int(part[4] or 1)
            at = part.end()
        if not 1 <= len(places) <= _MAX_PLACES:
            raise PrivotError(
                f"pattern {self.pattern!r} has {len(places)} places: give 1 to {_MAX_PLACES}"
            )
        return tuple(places)

    @property
    def size(self) -> int:
        """Number of identifiers."""
        return math.prod(map(len, self.places))

    def made_up(self, num_rows: int, rng: np.random.Generator) -> MadeUp:
        """Return a maker of `num_rows` distinct identifiers, so many at a time.

        Raises:
            PrivotError: if there are not as many.
        """
        if num_rows > self.size:
            raise PrivotError(
                f"pattern {self.pattern!r} has {self.size:,} identifiers, {num_rows:,} are requested: "
                "give it more places, or draw fewer"
            )
        return MadeUp(self.places, rng)

    def read(self, name: str, table: pa.Table) -> tuple[NDArray[Any], list[Problem]]:
        """Nothing: see the module."""
        return np.zeros(0), []

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.places
        return self


class MadeUp:
    """Makes identifiers, no two alike.

    Arguments:
        places: The characters that may stand in each place.
        rng: Of the keys, and of places before those that are permuted.
    """

    def __init__(self, places: tuple[str, ...], rng: np.random.Generator) -> None:
        split = len(places)
        while split and math.prod(map(len, places[split - 1 :])) <= _MAX_PERMUTED:
            split -= 1
        self._drawn, self._permuted, self._rng = places[:split], places[split:], rng
        self._keys = rng.integers(0, 2**63, _ROUNDS, np.uint64)
        self._made = 0

    def __call__(self, count: int) -> pa.Array:
        """Make so many more."""
        numbers = np.arange(self._made, self._made + count, dtype=np.uint64)
        self._made += count
        numbers = permuted(numbers, math.prod(map(len, self._permuted)), self._keys)
        last = []
        for each in reversed(self._permuted):
            numbers, digits = np.divmod(numbers, np.uint64(len(each)))
            last.append(np.array([*each])[digits])
        drawn = [self._rng.choice([*each], count) for each in self._drawn]
        texts = np.ascontiguousarray(np.stack([*drawn, *reversed(last)], axis=1))
        return pa.array(texts.view(f"U{texts.shape[1]}").reshape(count), pa.string())


def _characters(part: re.Match[str]) -> str:
    """Return the characters of one part of a pattern, each once; none if it cannot be read."""
    listed, escaped, plain = part[1], part[2], part[3]
    if listed is None:
        return plain or _escaped(escaped)
    found = [_listed(*piece) for piece in _RANGE.findall(listed)]
    return "".join(dict.fromkeys("".join(found))) if all(found) else ""


def _listed(low: str, high: str, special: str, one: str) -> str:
    """The characters of a range, of what a backslash escapes, or one."""
    if not low:
        return one or _escaped(special)
    ends = [end if len(end) == 1 else _escaped(end[1]) for end in (low, high)]
    if any(len(end) != 1 for end in ends):
        return ""
    first, last = map(ord, ends)
    return "".join(map(chr, range(first, last + 1)))


def _escaped(character: str) -> str:
    if character == "d":
        return _DIGITS
    return "" if character.isalnum() else character


def permuted(numbers: Words, size: int, keys: Words) -> Words:
    """The places of numbers below `size` under a permutation of these that the keys choose.

    >>> keys = np.arange(4, dtype=np.uint64)
    >>> sorted(permuted(np.arange(10, dtype=np.uint64), 10, keys).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    half = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
    mask = np.uint64((1 << int(half)) - 1)
    found = numbers.copy()
    walking = np.arange(len(numbers))
    while len(walking):
        left, right = found[walking] >> half, found[walking] & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right + key) & mask)
        found[walking] = (left << half) | right
        walking = walking[found[walking] >= size]
    return found


def _mixed(words: Words) -> Words:
    """The finalizer of SplitMix64: every bit depends on every other."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))

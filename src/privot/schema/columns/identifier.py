r"""Identifiers: columns that are never reported or fitted, but generated for samples.

A value that is different for everybody cannot be learned privately; a generated one serves programs that
need the column. The **pattern** of the values is public. It is a simple regular expression: literal
characters, `\d` and classes such as `[A-Z0-9]`, each optionally followed by a count, `{6}`.

**Distinct identifiers.** A *place* is one position of an identifier. The characters of several places
are the digits of a number from 0 to N − 1 in mixed bases. As many last places as have N ≤ $2^{62}$
strings get the images of 0, 1, 2, … under a keyed permutation: a Feistel network of four rounds, which
is repeated until the result is below N. So no two identifiers of a sample are equal. The other places
are drawn independently.

**Privacy review.** Adjacency: any two records. A table on a device may have the column: it is dropped
when records are read, and no report, error or count depends on it. Generated identifiers are a function
of the pattern and of random numbers.

References:
    Black, Rogaway, *Ciphers with arbitrary finite domains* (2002), for cycle walking.
"""

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
_ROUNDS = 4  # of the Feistel network

Words = NDArray[np.uint64]


class IdentifierGenerator:
    """Generator of distinct identifiers.

    Arguments:
        places: Allowed characters of each place.
        rng: Generator of the permutation's keys, and of the places that are drawn independently.
    """

    def __init__(self, places: tuple[str, ...], rng: np.random.Generator) -> None:
        split = len(places)  # the places from index `split` on have at most _MAX_PERMUTED strings
        while split and math.prod(map(len, places[split - 1 :])) <= _MAX_PERMUTED:
            split -= 1
        self._drawn, self._permuted, self._rng = places[:split], places[split:], rng
        self._keys = rng.integers(0, 2**63, _ROUNDS, np.uint64)
        self._next_number = 0

    def __call__(self, count: int) -> pa.Array:
        """Return the next `count` identifiers (count,)."""
        numbers = np.arange(self._next_number, self._next_number + count, dtype=np.uint64)
        self._next_number += count
        numbers = permuted(numbers, math.prod(map(len, self._permuted)), self._keys)
        columns = []  # characters (count,) of each place
        for characters in reversed(self._permuted):
            numbers, digits = np.divmod(numbers, np.uint64(len(characters)))
            columns.append(np.array([*characters])[digits])
        drawn = [self._rng.choice([*characters], count) for characters in self._drawn]
        texts = np.ascontiguousarray(np.stack([*drawn, *reversed(columns)], axis=1))
        return pa.array(texts.view(f"U{texts.shape[1]}").reshape(count), pa.string())


class IdentifierColumn(Column):
    r"""Column of identifiers, which are generated for every sampled record and never reported.

    Arguments:
        pattern: Characters, `\d`, or classes `[A-Z]`, each optionally with a count `{6}`.

    Examples:
        >>> column = IdentifierColumn(kind="identifier", pattern=r"P-\d{6}")
        >>> column.size
        1000000
        >>> column.generator(3, np.random.default_rng(0))(2).to_pylist()
        ['P-842848', 'P-592694']
    """

    kind: Literal["identifier"]
    pattern: str
    nullable: Literal[False] = False

    reported: ClassVar[bool] = False

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Allowed characters of each place of an identifier.

        Raises:
            PrivotError: for a pattern with other constructs of regular expressions, or over 100 places.
        """
        start, places = 0, []
        while start < len(self.pattern):
            part = _PART.match(self.pattern, start)
            allowed = part and _characters(part)
            if not part or not allowed or "\0" in allowed:
                unread = self.pattern[start:][:12]
                raise PrivotError(
                    f"pattern {self.pattern!r} cannot be read from {unread!r} on: write characters, "
                    r"\d or classes such as [A-Z0-9], each perhaps with a count such as {6}"
                )
            places += [allowed] * int(part[4] or 1)
            start = part.end()
        if not 1 <= len(places) <= _MAX_PLACES:
            raise PrivotError(
                f"pattern {self.pattern!r} has {len(places)} places: give 1 to {_MAX_PLACES}"
            )
        return tuple(places)

    @property
    def size(self) -> int:
        """Number of different identifiers."""
        return math.prod(map(len, self.places))

    def generator(self, num_rows: int, rng: np.random.Generator) -> IdentifierGenerator:
        """Return a generator of `num_rows` distinct identifiers.

        Raises:
            PrivotError: if the pattern allows fewer identifiers.
        """
        if num_rows > self.size:
            raise PrivotError(
                f"pattern {self.pattern!r} has {self.size:,} identifiers, {num_rows:,} are requested: "
                "give it more places, or draw fewer"
            )
        return IdentifierGenerator(self.places, rng)

    def read(self, name: str, table: pa.Table) -> tuple[NDArray[Any], list[Problem]]:
        """Return no values and no problems, because identifiers are never read."""
        return np.zeros(0), []

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.places
        return self


def _characters(part: re.Match[str]) -> str:
    """Return the distinct characters that one part of a pattern allows; "" if it cannot be parsed."""
    char_class, escaped, plain = part[1], part[2], part[3]
    if char_class is None:
        return plain or _escaped(escaped)
    pieces = [_class_piece(*piece) for piece in _RANGE.findall(char_class)]
    return "".join(dict.fromkeys("".join(pieces))) if all(pieces) else ""


def _class_piece(low: str, high: str, escaped: str, plain: str) -> str:
    """Return the characters of one piece of a class: a range, an escape, or a plain character."""
    if not low:
        return plain or _escaped(escaped)
    ends = [end if len(end) == 1 else _escaped(end[1]) for end in (low, high)]
    if any(len(end) != 1 for end in ends):
        return ""
    first, last = map(ord, ends)
    return "".join(map(chr, range(first, last + 1)))


def _escaped(character: str) -> str:
    """Return the characters that a backslash and a character stand for; "" if unknown."""
    if character == "d":
        return _DIGITS
    return "" if character.isalnum() else character


def permuted(numbers: Words, size: int, keys: Words) -> Words:
    """Return the images of numbers (n,) under a keyed permutation of 0 … size − 1.

    The Feistel network permutes the numbers of an even number of bits. An image that is not below `size`
    is permuted again until it is.
    """
    half = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))  # half the number of bits
    mask = np.uint64((1 << int(half)) - 1)
    images = numbers.copy()
    outside = np.arange(len(numbers))
    while len(outside):
        left, right = images[outside] >> half, images[outside] & mask
        for key in keys:
            left, right = right, left ^ (mix_words(right + key) & mask)
        images[outside] = (left << half) | right
        outside = outside[images[outside] >= size]
    return images


def mix_words(words: Words) -> Words:
    """Hash words by SplitMix64's finalizer, in which every output bit depends on every input bit."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))

r"""Columns of words from an open vocabulary, which nobody listed; a pilot finds the frequent ones.

A word has letters $x_1 … x_m$ (numbers from 1 on; 0 after its end). Its **bucket** is
$h(x) = \sum_j 48271^j x_j \bmod 65521$. A coding asks for the bucket alone, or for the bucket and two
neighboring letters, and hashes this **key** to one of g = 512 cells. With $P = 2^{31} − 1$,

$$ \mathrm{code}_i(x) = ((a_i \, \mathrm{key} + b_i) \bmod P) \bmod g , \qquad
\mathrm{key} = h(x) · A^2 + x_{2ℓ−1} A + x_{2ℓ} , $$

where A is one more than the number of letters, $a_i, b_i$ are the powers $2i + 1$ and $2i + 2$ of 48271
modulo P, and the level ℓ of every coding is public. Level 0 is the bucket alone, with $A^2 − 1$ in place
of the letters. The bucket connects the letters of one word, and tests them (`privot.local.words`).

**Privacy review.** Adjacency: any two words, of any lengths. A word is only encoded here. The cell is
reported by subset selection with the whole ε, as any code of a joint report; the proof is for any two
codes, so it does not matter what is hashed, or how. Hash functions are public constants. All reports
are of one length. The time of encoding depends on the word's length: only the person's device can
observe it.

References:
    Bassily, Nissim, Stemmer, Thakurta, *Practical locally private heavy hitters* (2017); Wang, Li, Jha,
    *Locally differentially private heavy hitter identification* (2019).
"""

import unicodedata
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import Field, model_validator

from privot.core.errors import PrivotError
from privot.schema.columns import raw_values
from privot.schema.columns.alphabet import Alphabet, Categories, Codes
from privot.schema.columns.column import CodedColumn, OutOfBounds, TableColumns

NUM_CODINGS, NUM_CELLS, NUM_BUCKETS = 128, 512, 65521  # a prime
_PRIME, _FACTOR = 2**31 - 1, 48271
_PERIOD, _OF_BUCKETS = 32, 6  # levels repeat; of so many codings, so many ask for the bucket alone
_MOST_LETTERS, _LONGEST = 63, 32
_SPACES = " \t\r\n"


class WordColumn(CodedColumn):
    """Column of words that nobody lists.

    Words are compared without capitals (NFC, lower case, no spaces around them). The column is for a
    pilot: `privot schema new --pilot` replaces it by the categories that it finds.

    Arguments:
        max_length: Largest number M of letters.
        letters: The letters of words, a public alphabet.
        out_of_bounds: Whether to `"refuse"` longer words and other letters, or to `"clip"` (drop) them.
        nullable: Whether a value may be missing.

    Examples:
        >>> column = WordColumn(kind="word", max_length=8)
        >>> column.symbols("  Hull ")
        [8, 21, 12, 12, 0, 0, 0, 0]
    """

    kind: Literal["word"]
    max_length: int = Field(default=16, ge=2, le=_LONGEST)
    letters: str = "abcdefghijklmnopqrstuvwxyz '-"
    out_of_bounds: OutOfBounds = "refuse"

    open_vocabulary: ClassVar[bool] = True

    @cached_property
    def alphabet(self) -> Alphabet:
        """Cells of one coding."""
        return Categories(tuple(f"cell {cell}" for cell in range(NUM_CELLS)))

    @cached_property
    def codings(self) -> tuple[Alphabet, ...]:
        return (self.alphabet,) * NUM_CODINGS

    @property
    def base(self) -> int:
        """Number A of letters, and the end."""
        return len(self.letters) + 1

    @property
    def pairs(self) -> int:
        """Number of pairs of letters of the longest word."""
        return (self.max_length + 1) // 2

    @cached_property
    def levels(self) -> NDArray[np.int64]:
        """Level of each coding: 0 for buckets; ℓ for letters 2ℓ − 1 and 2ℓ, late ones less often."""
        weights = np.minimum(1.0, (4 / np.arange(1, self.pairs + 1)) ** 2)
        shares = np.cumsum(weights) / weights.sum()
        places = (np.arange(_PERIOD - _OF_BUCKETS) + 0.5) / (_PERIOD - _OF_BUCKETS)
        chosen = np.searchsorted(shares, places) + 1
        period = np.concatenate([np.zeros(_OF_BUCKETS, np.int64), chosen])
        return np.tile(period, NUM_CODINGS // _PERIOD)

    @cached_property
    def factors(self) -> NDArray[np.int64]:
        """Numbers a and b (2, c) of each coding."""
        powers = [pow(_FACTOR, power, _PRIME) for power in range(1, 2 * NUM_CODINGS + 1)]
        return np.array(powers).reshape(-1, 2).T

    def hashed(self, coding: int, keys: NDArray[np.int64]) -> Codes:
        """Return the cells of keys (…) in a coding."""
        a, b = self.factors[:, coding]
        return (keys * a + b) % _PRIME % NUM_CELLS

    def buckets(self, symbols: NDArray[np.int64], first: int = 0) -> NDArray[np.int64]:
        """Return the buckets (n,) of words (n, m), or the part of letters from `first` on."""
        places = range(first + 1, first + 1 + symbols.shape[1])
        powers = [pow(_FACTOR, place, NUM_BUCKETS) for place in places]
        return np.asarray(symbols @ np.array(powers, np.int64) % NUM_BUCKETS)

    def cells(self, symbols: NDArray[np.int64]) -> Codes:
        """Return the codes (c, n) of words (n, 2·pairs) in all codings."""
        square = self.base**2
        pairs = symbols[:, ::2] * self.base + symbols[:, 1::2]
        fragments = np.hstack([np.full((len(symbols), 1), square - 1), pairs])
        keys = (self.buckets(symbols) * square)[:, None] + fragments
        return np.stack([self.hashed(i, keys[:, level]) for i, level in enumerate(self.levels)])

    def symbols(self, text: str | None) -> list[int] | None:
        """Return the numbers (2·pairs) of a word's letters, 0 if missing; None if they are refused."""
        plain = unicodedata.normalize("NFC", text or "").lower().strip(_SPACES)
        places = [self.letters.find(letter) + 1 for letter in plain]
        if self.out_of_bounds == "clip":
            places = [place for place in places if place][: self.max_length]
        if 0 in places or len(places) > self.max_length or not (places or self.nullable):
            return None
        return places + [0] * (2 * self.pairs - len(places))

    def word(self, symbols: Any) -> str:
        """Return the word of its letters' numbers."""
        return "".join(self.letters[symbol - 1] for symbol in symbols if symbol)

    def _read(self, name: str, table: pa.Table) -> tuple[Codes, Codes, list[raw_values.Problem]]:
        """Return the codes (c, d) of the distinct words, the word (n,) of each row, and problems."""
        texts, problems = raw_values.read_texts(table.column(name), name)
        encoded = texts.combine_chunks().dictionary_encode(null_encoding="encode")
        listed = [self.symbols(text) for text in encoded.dictionary.to_pylist()]
        rows = encoded.indices.to_numpy().astype(np.int64)
        bad = np.array([symbols is None for symbols in listed], bool)[rows]
        if bad.any() and not problems:
            fault = f"has no word of at most {self.max_length} of the letters {self.letters!r}"
            remedy = 'correct it, or declare letters, nullable, or out_of_bounds = "clip"'
            problems = [raw_values.Problem(name, fault, remedy, bad)]
        blank = [0] * (2 * self.pairs)
        symbols = np.array([s or blank for s in listed], np.int64).reshape(-1, len(blank))
        return self.cells(symbols), rows, problems

    def read(self, name: str, table: pa.Table) -> tuple[Codes, list[raw_values.Problem]]:
        codes, rows, problems = self._read(name, table)
        return codes[0][rows], problems

    def encode_codings(self, name: str, table: pa.Table) -> Codes:
        codes, rows, problems = self._read(name, table)
        raw_values.refuse(problems)
        return codes[:, rows]

    @cached_property
    def atoms(self) -> tuple[Alphabet, Codes]:
        """Test words for audits, with their codes."""
        words = [
            first + second
            for first in self.letters
            for second in self.letters
            if first + second == (first + second).strip()
        ]
        symbols = np.array([self.symbols(word) for word in words])
        return Categories(tuple(words)), self.cells(symbols)

    def decode_codes(self, name: str, codes: Codes, rng: Generator) -> TableColumns:
        """Return test words; the word of a cell is unknown."""
        words = np.array(self.atoms[0].labels)
        return {name: pa.array(words[codes % len(words)])}

    def code_program(self, name: str, codings: Any) -> dict[str, Any]:
        fields = {"max_length": self.max_length, "letters": self.letters, "nullable": self.nullable}
        clip = {"out_of_bounds": "clip"} if self.out_of_bounds == "clip" else {}
        return {"take": "word", "columns": [name], "levels": self.levels.tolist()} | fields | clip

    @model_validator(mode="after")
    def _check(self) -> "WordColumn":
        plain = unicodedata.normalize("NFC", self.letters).lower()
        if (
            plain != self.letters
            or len({*plain}) < len(plain)
            or not 2 <= len(plain) <= _MOST_LETTERS
        ):
            raise PrivotError(
                f"letters {self.letters!r} are not 2 to {_MOST_LETTERS} different lower-case letters: "
                "give each once"
            )
        return self

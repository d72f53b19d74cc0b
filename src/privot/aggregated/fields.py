r"""Prime fields, and the hash function TurboSHAKE128 that draws their elements, for Prio3.

**Fields** (section 6.1 of draft-irtf-cfrg-vdaf-08, to which numbers in parentheses refer) have roots of
unity of orders that are high powers of two, so that polynomials are interpolated by fast transforms.
Vectors are arrays of Python's integers.

**TurboSHAKE128** (RFC 9861) is a sponge with a rate of 168 bytes. Each block of the padded message is
added to the first 21 of 25 words of the state, and the state is permuted by the last 12 rounds of
Keccak-p[1600]; the output is read from the same 21 words. SHAKE128 differs by its 24 rounds and its
suffix, so tests compare the code with `hashlib`. No branch and no memory address depends on the message,
so the time depends on its length alone.

References:
    Viguier, Wong, Van Assche, Dang, Daemen, RFC 9861, *KangarooTwelve and TurboSHAKE* (2025).
    NIST, FIPS 202, *SHA-3 standard* (2015), for the permutation.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, repeat

import numpy as np
from numpy.typing import NDArray

from privot.core.compiled import compiled, compiled_part
from privot.core.errors import PrivotError

Elements = NDArray[np.object_]  # Python's integers, in [0, p)

_RATE, _ROUNDS = 168, 24  # bytes of a block, rounds of the whole permutation
# The steps ρ and π move words in one cycle: the word that each moves to, and its rotation in bits.
_LANES = np.array(
    [10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1]
)
_TURNS = np.array([(i + 1) * (i + 2) // 2 % 64 for i in range(24)], np.uint64)


def _round_constants() -> list[int]:
    """Return the constants of all rounds, from the shift register of FIPS 202."""
    constants, register = [], 1
    for _ in range(_ROUNDS):
        constant = 0
        for bit in range(7):
            constant |= (register & 1) << (2**bit - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return constants


_CONSTANTS = np.array(_round_constants(), np.uint64)
_ONE, _WORD = np.uint64(1), np.uint64(64)


def turboshake128(message: bytes, length: int, domain: int = 1) -> bytes:
    """Return `length` bytes of output for a message and a domain separation byte, from 1 to 127.

    Examples:
        >>> turboshake128(b"", 16, domain=0x1F).hex()
        '1e415f1c5983aff2169217277d17bb53'
    """
    return _sponge(message, length, domain, 12)


def _sponge(message: bytes, length: int, domain: int, rounds: int) -> bytes:
    padded = bytearray(message + bytes([domain]))
    padded += bytes(-len(padded) % _RATE)
    padded[-1] ^= 0x80
    output = np.empty((-(-length // _RATE), _RATE // 8), np.uint64)
    _run(np.frombuffer(bytes(padded), "<u8").reshape(-1, _RATE // 8), output, _ROUNDS - rounds)
    return output.astype("<u8", copy=False).tobytes()[:length]


@compiled
def _run(blocks, output, first):  # type: ignore[no-untyped-def]  # compiled for words
    """Absorb blocks (n, 21) and fill the output (m, 21), with rounds `first`, …, 23."""
    state, row = np.zeros(25, np.uint64), np.empty(5, np.uint64)
    for k in range(len(blocks)):
        for i in range(21):
            state[i] ^= blocks[k, i]
        _permute(state, row, first)
    for k in range(len(output)):
        if k > 0:
            _permute(state, row, first)
        output[k] = state[:21]


@compiled_part
def _permute(state, row, first):  # type: ignore[no-untyped-def]  # compiled for words
    """Apply rounds of Keccak-p[1600] to the 25 words of a state; `row` is scratch memory (5,)."""
    for number in range(first, _ROUNDS):
        for x in range(5):  # θ
            row[x] = state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]
        for x in range(5):
            after = row[(x + 1) % 5]
            parity = row[(x + 4) % 5] ^ (after << _ONE | after >> (_WORD - _ONE))
            for y in range(0, 25, 5):
                state[x + y] ^= parity
        moved = state[1]
        for i in range(24):  # ρ and π
            lane, turn = _LANES[i], _TURNS[i]
            replaced = state[lane]
            state[lane] = moved << turn | moved >> (_WORD - turn)
            moved = replaced
        for y in range(0, 25, 5):  # χ
            row[:] = state[y : y + 5]
            for x in range(5):
                state[x + y] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5])
        state[0] ^= _CONSTANTS[number]  # ι


class InvalidReportError(PrivotError):
    """Error for a report that is invalid, or was changed in transit, and must be left out."""


@dataclass(frozen=True)
class Field:
    """A prime field with roots of unity of high order (6.1).

    Arguments:
        modulus: The prime p.
        generator: An element of order `2^log_order`.
        log_order: Binary logarithm of the generator's order.
        size: Number of bytes of an encoded element.
    """

    modulus: int
    generator: int
    log_order: int
    size: int

    def encode(self, vector: Elements) -> bytes:
        """Return elements as little-endian bytes."""
        return b"".join([element.to_bytes(self.size, "little") for element in vector])

    def decode(self, encoded: bytes) -> Elements:
        """Return the elements (n,) of little-endian bytes.

        Raises:
            InvalidReportError: if a number is p or more.
        """
        vector = self._numbers(encoded)
        if (vector >= self.modulus).any():
            raise InvalidReportError(
                "a share holds a number beyond its field: it is no share of Prio3"
            )
        return vector

    def _numbers(self, encoded: bytes) -> Elements:
        words = np.frombuffer(encoded, "<u8").astype(object).reshape(-1, self.size // 8)
        return words[:, 0] if self.size == 8 else words[:, 0] + (words[:, 1] << 64)

    def expand(self, seed: bytes, tag: bytes, binder: bytes, length: int) -> Elements:
        """Draw uniform elements (length,) from TurboSHAKE128 by rejection sampling (6.2).

        They depend on a secret seed, a domain separation tag, and public bytes (the binder).
        """
        message, num_drawn = bytes([len(tag)]) + tag + seed + binder, length
        while True:
            drawn = self._numbers(turboshake128(message, num_drawn * self.size))
            drawn = drawn[drawn < self.modulus]
            if len(drawn) >= length:
                return drawn[:length]
            num_drawn += length - len(drawn)

    def root(self, order: int) -> int:
        """Return a primitive root of unity α of an order P that is a power of two."""
        return pow(self.generator, (1 << self.log_order) // order, self.modulus)

    def inverse(self, number: int) -> int:
        """Return the multiplicative inverse of a number."""
        return pow(number, -1, self.modulus)

    def powers(self, base: int, count: int) -> Elements:
        """Return the powers (1, b, …, b^(count − 1)) of a base b."""
        steps = accumulate(repeat(base, count - 1), lambda x, y: x * y % self.modulus, initial=1)
        return np.array([*steps], object)

    def transform(self, vectors: Elements, root: int) -> Elements:
        """Evaluate polynomials with coefficients (P, …) at the powers α^0, …, α^(P − 1) of a root α."""
        values = vectors.reshape(len(vectors), -1)
        while half := len(values) // 2:  # Stockham's transform: results are in natural order
            low, high = values[:half], values[half:]
            odd = (low - high) * _powers(self, root, half)[:, None]
            values = (np.stack([low + high, odd], axis=1) % self.modulus).reshape(half, -1)
            root = root * root % self.modulus
        return values.reshape(vectors.shape)

    def interpolate(self, values: Elements) -> Elements:
        """Return the coefficients (P, …) of polynomials with values (P, …) at P-th roots of unity."""
        order = len(values)
        scaled = self.transform(values, self.inverse(self.root(order)))
        return scaled * self.inverse(order) % self.modulus


@lru_cache(maxsize=256)
def _powers(field: Field, base: int, count: int) -> Elements:
    return field.powers(base, count)


FIELD64 = Field(2**64 - 2**32 + 1, pow(7, 2**32 - 1, 2**64 - 2**32 + 1), 32, 8)
_P128 = 2**128 - 7 * 2**66 + 1
FIELD128 = Field(_P128, pow(7, 2**62 - 7, _P128), 66, 16)

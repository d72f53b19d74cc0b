r"""Prio3: shares of a vector, with a proof for both servers that some record has this vector.

This is the verifiable distributed aggregation function Prio3 of draft-irtf-cfrg-vdaf-08, byte for byte
and with the draft's names; numbers in parentheses are its sections. (`@divviup/prio3` 0.8 and `prio`
0.16 implement the same version; later versions have other bytes.) The circuits are the draft's
`Histogram`, and `Pairs`, which is not in the draft.

**Fully linear proof** (7.3). A vector x over a prime field is valid if, for random r,
$C(x, r) = a · \sum_k G(w_k) + b$ is zero, with the gadget $G(w) = \sum_{j=1}^c w_{2j−1} w_{2j}$
(`ParallelSum(Mul)`) and inputs $w_1, …, w_m$ and b that are affine in x. Let P be the least power of two
above m, and α a root of unity of order P. For each of the 2c wires, the prover draws a random value, and
interpolates a polynomial $W_j$ that has this value at $α^0$, the wire's inputs at $α^1, …, α^m$ and 0 at
other powers. The proof is the random values and the coefficients of $g = G(W_1, …, W_{2c})$, of degree
2P − 2. The verifiers compute shares of $v = a \sum_k g(α^k) + b$, and of $W_j(t)$ and $g(t)$ at a random
point t, all of which are linear in their shares. They exchange these and accept if $v = 0$ and
$G(W(t)) = g(t)$.

**Soundness.** A proof of an x that is not valid is accepted with probability at most

$$ \frac{d}{p} + \frac{2P − 2}{p − P} , $$

where d is the degree of C in r (`Circuit.degree`) and p the size of the field. Since r is a hash of the
shares, a client that tries q of them multiplies the probability by q: with `FIELD128`, 1 024 cells and
$q = 2^{64}$ it stays below $2^{-53}$. `FIELD64` needs three proofs, whose errors multiply. A valid x is
always accepted, unless t is a root of unity, which has probability P/p.

**Who sees what.** Public are the circuit (and so the length of x), the number of proofs, the nonce, and
which reports are valid. A server sees its own share, which is uniform; the public share, which consists
of hashes of shares with 128 random bits; and the other server's share of a verifier. For a valid report,
the sum of both verifiers is $(0, W(t), G(W(t)))$, and W(t) is uniform because of the random values at
$α^0$, so all of it can be simulated without a record. This holds against an adversary of bounded
computation, who cannot distinguish TurboSHAKE128 with an unknown seed of 16 bytes from random bytes. The
verifier of an *invalid* report reveals more. Privacy needs one honest server; soundness needs both.

**Nonce and key.** A nonce is 16 random bytes, used by one report. The verification key is 16 random
bytes that the servers share. No client may know it before its report is made, because it could choose g
to fit t. A report must be prepared with one key only, because a second point t would reveal linear
functions of x.

**Privacy review.** Random bytes are from `secrets`, unless the caller gives others, as tests do. The
time that Python's integers take depends on their size: a client's time depends on its record, and is
seen on the device alone; a server's depends on shares. Errors contain no number of a report.

References:
    Barnes, Cook, Patton, Schoppmann, *Verifiable distributed aggregation functions*,
    draft-irtf-cfrg-vdaf-08 (2023).
    Boneh, Boyle, Corrigan-Gibbs, Gilboa, Ishai, *Zero-knowledge proofs on secret-shared data via fully
    linear PCPs* (2019).
    Davis, Patton, Rosulek, Schoppmann, *Verifiable distributed aggregation functions* (2023).
"""

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from privot.aggregated.fields import FIELD128, Elements, Field, InvalidReportError, turboshake128

PrepState = tuple[Elements, bytes]  # a share of a measurement, and the seed of joint randomness

SEED_SIZE = NONCE_SIZE = 16  # bytes
_VERSION = 8  # of the draft


class Circuit(ABC):
    """A validity circuit with one gadget, `ParallelSum(Mul)` (the draft's `Valid`, 7.3.2).

    Attributes:
        algorithm: The draft's number of the algorithm; numbers from 0xFFFF0000 on are for private use.
        field: Field of measurements and proofs.
        length: Number of elements of an encoded measurement.
        joint_rand_length: Number of elements of r.
        degree: Largest degree d of C in r.
        products: Number of products of which C is a sum.
        chunk: Number c of products of one call of the gadget.
    """

    algorithm: int
    field: Field = FIELD128
    length: int
    joint_rand_length: int = 2
    degree: int
    products: int
    chunk: int

    @abstractmethod
    def evaluate(
        self, measurement: Elements, joint_rand: Elements, shares: int
    ) -> tuple[Elements, int, int]:
        """Return factors (products, 2) of the products, and a and b of $C = a \\sum G + b$.

        Arguments:
            measurement: An encoded measurement, or one of its shares (length,).
            joint_rand: The joint randomness r (joint_rand_length,).
            shares: Number of shares: constants are divided by it, so that those of all shares add up.
        """

    def truncate(self, measurement: Elements) -> Elements:
        """Return the part of a measurement, of a share or of a sum of shares that is aggregated."""
        return measurement

    def measurement_of(self, vector: NDArray[np.int64]) -> Elements:
        """Return the measurement whose aggregated part (`truncate`) is a vector."""
        return vector.astype(object)

    @property
    def calls(self) -> int:
        """Number m of calls of the gadget."""
        return -(-self.products // self.chunk)

    @property
    def wire_length(self) -> int:
        """Number P of values that determine a wire's polynomial, the least power of two above m."""
        return int(1 << self.calls.bit_length())

    @property
    def proof_length(self) -> int:
        """Number of elements of a proof."""
        return 2 * self.chunk + 2 * self.wire_length - 1

    @property
    def verifier_length(self) -> int:
        """Number of elements of a verifier."""
        return 2 * self.chunk + 2

    @property
    def error(self) -> float:
        """Largest probability that one proof of an invalid measurement is accepted, for one r."""
        count, modulus = self.wire_length, self.field.modulus
        return self.degree / modulus + (2 * count - 2) / (modulus - count)

    def prove(self, measurement: Elements, prove_rand: Elements, joint_rand: Elements) -> Elements:
        """Return the proof of an encoded measurement (7.3.3), given random values (2c,) of wires."""
        field, count = self.field, self.wire_length
        wires = self._wires(prove_rand, self.evaluate(measurement, joint_rand, 1)[0])
        # The gadget's polynomial is interpolated at roots of order 2P; every second one has order P.
        twists = field.powers(field.root(2 * count), count)[:, None]
        twisted = field.interpolate(wires) * twists % field.modulus
        between = field.transform(twisted, field.root(count))
        values = np.empty(2 * count, object)
        values[::2], values[1::2] = _sums_of_products(wires), _sums_of_products(between)
        return np.concatenate([prove_rand, field.interpolate(values % field.modulus)[:-1]])

    def query(
        self,
        measurement: Elements,
        proof: Elements,
        query_rand: Elements,
        joint_rand: Elements,
        shares: int,
    ) -> Elements:
        """Return a share of the verifier (7.3.4), by shares of the measurement and of the proof.

        Raises:
            InvalidReportError: if the random point t, `query_rand` (1,), is a root of unity.
        """
        field, count = self.field, self.wire_length
        seeds, gadget = np.split(proof, [2 * self.chunk])
        factors, scale, rest = self.evaluate(measurement, joint_rand, shares)
        point, modulus = int(query_rand[0]), field.modulus
        if pow(point, count, modulus) == 1:
            raise InvalidReportError("the point of a proof is a root of unity: leave it out")
        folded = gadget[:count].copy()
        folded[:-1] += gadget[count:]
        outputs = field.transform(folded % modulus, field.root(count))[1 : self.calls + 1]
        result = (scale * outputs.sum() + rest) % modulus
        powers = field.powers(point, len(gadget))
        # Lagrange's polynomials of the roots, evaluated at t: Σ_j (t/α^k)^j / P.
        weights = field.interpolate(powers[:count])
        at_point = weights @ self._wires(seeds, factors)
        return np.array([result, *at_point % modulus, gadget @ powers % modulus], object)

    def decide(self, verifier: Elements) -> bool:
        """Return whether a verifier, the sum of its shares, is that of a valid measurement (7.3.5)."""
        product = _sums_of_products(verifier[None, 1:-1])[0] % self.field.modulus
        return bool(verifier[0] == 0 and product == verifier[-1])

    def _wires(self, seeds: Elements, factors: Elements) -> Elements:
        """Return the values (P, 2c) of all wires at the roots of unity."""
        wires = np.zeros((self.wire_length, 2 * self.chunk), object)
        wires[0] = seeds
        wires[1 : self.calls + 1].reshape(-1, 2)[: len(factors)] = factors
        return wires


def _sums_of_products(wires: Elements) -> Elements:
    return (wires[:, ::2] * wires[:, 1::2]).sum(axis=1)


class Histogram(Circuit):
    """Circuit of vectors in which one of n numbers is 1 and the others are 0 (7.4.4).

    Arguments:
        length: Number n of buckets.
        chunk: Products of a call; the default √n makes proofs short.
    """

    algorithm = 3

    def __init__(self, length: int, chunk: int | None = None) -> None:
        self.length = self.products = length
        self.degree = length + 1
        self.chunk = chunk or math.isqrt(length)

    def evaluate(
        self, measurement: Elements, joint_rand: Elements, shares: int
    ) -> tuple[Elements, int, int]:
        """See `Circuit`: Σ r^(i+1) x_i (x_i − 1) and Σ x_i − 1."""
        modulus, part = self.field.modulus, self.field.inverse(shares)
        r, s = map(int, joint_rand)
        factors = np.zeros((self.calls * self.chunk, 2), object)
        factors[:, 1] = modulus - part  # also in the rows of padding, as in the draft
        weights = self.field.powers(r, self.length + 1)[1:]
        factors[: self.length, 0] = measurement * weights % modulus
        factors[: self.length, 1] += measurement
        return factors, s, s * s * (int(measurement.sum()) - part) % modulus

    def encode(self, bucket: int) -> Elements:
        """Return the measurement of a bucket."""
        measurement = np.zeros(self.length, object)
        measurement[bucket] = 1
        return measurement


class Levels(Histogram):
    """Circuit of one bucket of a pyramid's finest level; the result has the counts of all levels.

    Counts of coarser cells are sums of counts of finer cells, so shares of the finest level are enough,
    and the levels of a report agree. Shares are those of the draft's `Histogram`.

    Arguments:
        sizes: Number of buckets of each level, the coarsest first; a level splits all buckets alike.
        missing: Whether the last bucket of every level is for missing places.

    Examples:
        >>> Levels((2, 4)).truncate(np.array([0, 0, 1, 0], object)).tolist()
        [0, 1, 0, 0, 1, 0]
    """

    def __init__(self, sizes: Sequence[int], missing: bool = False) -> None:
        super().__init__(sizes[-1])
        self._sizes, self._missing = sizes, int(missing)

    def truncate(self, measurement: Elements) -> Elements:
        cells, missing = np.split(measurement, [self.length - self._missing])
        counts = [cells.reshape(size - self._missing, -1).sum(axis=1) for size in self._sizes]
        return np.concatenate([part for level in counts for part in (level, missing)])

    def measurement_of(self, vector: NDArray[np.int64]) -> Elements:
        return vector[-self.length :].astype(object)


class Pairs(Circuit):
    r"""Circuit of all products $z_a z_b$, a ≤ b, of a vector z that concatenates one-hot blocks.

    A measurement has the numbers $x_{ab}$ row by row; its diagonal is z. With random r and s, C is

    $$ s \Bigl(\sum_a z_a \sum_{b ≥ a} r_{ab} z_b − \sum_{a ≤ b} r_{ab} x_{ab}\Bigr)
       + \sum_j s^{j+1} \Bigl(\sum_{a ∈ j} z_a − 1\Bigr) , $$

    with blocks j = 1, 2, … and successive powers $r_{ab}$ of r. This polynomial in r and s is zero if
    and only if all $x_{ab} = z_a z_b$, so that $z_a^2 = z_a$, and each block adds up to 1, that is, if x
    is the measurement of a record. For z of length D, D products prove D(D + 1)/2 numbers. (One proof of
    each one-hot block would say nothing about pairs; the draft's `MultihotCountVec` would accept any few
    cells.)

    Arguments:
        sizes: Sizes of the blocks, which add up to D.
        scales: Factors of the numbers in the result (D(D + 1)/2,); all 1 by default.
    """

    algorithm = 0xFFFF0001

    def __init__(self, sizes: Sequence[int], scales: NDArray[np.int64] | None = None) -> None:
        self.products = width = sum(sizes)
        self.length = width * (width + 1) // 2
        self.chunk = math.isqrt(width)
        self.degree = self.length + 1
        self._columns = np.triu_indices(width)[1]
        self._rows = np.cumsum([0, *range(width, 1, -1)])  # starts of rows: the diagonal
        self._blocks = np.cumsum([0, *sizes[:-1]])  # starts of blocks
        self._scales = np.ones(1, object) if scales is None else scales.astype(object)

    def evaluate(
        self, measurement: Elements, joint_rand: Elements, shares: int
    ) -> tuple[Elements, int, int]:
        modulus, part = self.field.modulus, self.field.inverse(shares)
        r, s = map(int, joint_rand)
        weights, z = self.field.powers(r, self.length + 1)[1:], measurement[self._rows]
        inner = np.add.reduceat(weights * z[self._columns], self._rows) % modulus
        sums = np.add.reduceat(z, self._blocks) - part
        rest = self.field.powers(s, len(sums) + 2)[2:] @ sums - s * (weights @ measurement)
        return np.stack([z, inner], axis=1), s, rest % modulus

    def truncate(self, measurement: Elements) -> Elements:
        return measurement * self._scales % self.field.modulus

    def measurement_of(self, vector: NDArray[np.int64]) -> Elements:
        return (vector != 0).astype(object)


class Usage(IntEnum):
    """Purpose for which a seed is expanded (7.2)."""

    MEASUREMENT_SHARE = 1
    PROOF_SHARE = 2
    JOINT_RANDOMNESS = 3
    PROVE_RANDOMNESS = 4
    QUERY_RANDOMNESS = 5
    JOINT_RAND_SEED = 6
    JOINT_RAND_PART = 7


@dataclass(frozen=True)
class Prio3:
    """The draft's Prio3 for circuits with joint randomness (7.2); server 0 is the leader.

    Arguments:
        circuit: Validity circuit.
        shares: Number of servers, 2 to 255.
        proofs: Number of proofs in a report, 1 to 255: at least 1 with `FIELD128`, 3 with `FIELD64`.
    """

    circuit: Circuit
    shares: int = 2
    proofs: int = 1

    @property
    def rand_size(self) -> int:
        """Number of random bytes of a report: three seeds for each helper, a blind and a seed."""
        return SEED_SIZE * (3 * self.shares - 1)

    @property
    def public_share_size(self) -> int:
        """Number of bytes of a public share."""
        return SEED_SIZE * self.shares

    def input_share_size(self, server: int) -> int:
        """Return the number of bytes of a server's input share."""
        if server:
            return 3 * SEED_SIZE
        numbers = self.circuit.length + self.proofs * self.circuit.proof_length
        return numbers * self.circuit.field.size + SEED_SIZE

    @property
    def prep_share_size(self) -> int:
        """Number of bytes of a share of the verifiers."""
        return self.proofs * self.circuit.verifier_length * self.circuit.field.size + SEED_SIZE

    def shard(
        self, measurement: Elements, nonce: bytes, rand: bytes | None = None
    ) -> tuple[bytes, list[bytes]]:
        """Return the public share and each server's input share of an encoded measurement (7.2.1).

        Arguments:
            measurement: Encoded measurement (length,).
            nonce: 16 random bytes, of this report alone.
            rand: Fresh random bytes of length `rand_size`; drawn from the system if None.
        """
        rand = secrets.token_bytes(self.rand_size) if rand is None else rand
        field, *seeds = self.circuit.field, *_seeds(rand)
        helpers = {k: b"".join(seeds[3 * k - 3 : 3 * k]) for k in range(1, self.shares)}
        pads = [self.measurement_share(k, share) for k, share in helpers.items()]
        first = (measurement - sum(pads)) % field.modulus
        blinds = [seeds[-2], *seeds[2:-2:3]]
        parts = [
            self._part(k, blinds[k], nonce, field.encode(share))
            for k, share in enumerate([first, *pads])
        ]
        joint_rands = self._joint_rands(self._joint_rand_seed(parts))
        length = self.proofs * 2 * self.circuit.chunk
        prove_rands = self._expand(Usage.PROVE_RANDOMNESS, seeds[-1], b"", length)
        by_proof = zip(*(np.split(r, self.proofs) for r in (prove_rands, joint_rands)), strict=True)
        proofs = np.concatenate([self.circuit.prove(measurement, *rands) for rands in by_proof])
        proofs -= sum(self._proofs(k, share) for k, share in helpers.items())
        leader = field.encode(first) + field.encode(proofs % field.modulus) + seeds[-2]
        return b"".join(parts), [leader, *helpers.values()]

    def prep_init(
        self, verify_key: bytes, server: int, nonce: bytes, public_share: bytes, input_share: bytes
    ) -> tuple[PrepState, bytes]:
        """Return a server's state, and its share of the verifiers for the other servers (7.2.2).

        Raises:
            InvalidReportError: if shares have the wrong length, or numbers beyond the field.
        """
        sizes = (self.public_share_size, self.input_share_size(server))
        if (len(public_share), len(input_share)) != sizes:
            raise InvalidReportError(
                f"shares have other sizes than {sizes}: send them again, whole"
            )
        measurement = self.measurement_share(server, input_share)
        encoded, parts = self.circuit.field.encode(measurement), _seeds(public_share)
        parts[server] = self._part(server, input_share[-SEED_SIZE:], nonce, encoded)
        seed = self._joint_rand_seed(parts)
        query_rands = self._expand(Usage.QUERY_RANDOMNESS, verify_key, nonce, self.proofs)
        vectors = (self._proofs(server, input_share), query_rands, self._joint_rands(seed))
        by_proof = zip(*(np.split(vector, self.proofs) for vector in vectors), strict=True)
        verifiers = [
            self.circuit.query(measurement, proof, query_rand, joint_rand, self.shares)
            for proof, query_rand, joint_rand in by_proof
        ]
        encoded_verifiers = self.circuit.field.encode(np.concatenate(verifiers))
        return (measurement, seed), encoded_verifiers + parts[server]

    def prep_shares_to_prep(self, prep_shares: Iterable[bytes]) -> bytes:
        """Verify a report by all servers' shares of its verifiers, and return the message for servers.

        Raises:
            InvalidReportError: if a proof is not accepted, or a share has the wrong length.
        """
        parts, total = [], np.zeros(self.proofs * self.circuit.verifier_length, object)
        for share in prep_shares:
            if len(share) != self.prep_share_size:
                raise InvalidReportError(
                    f"{len(share)} bytes are no share of a verifier: leave it out"
                )
            total += self.circuit.field.decode(share[:-SEED_SIZE])
            parts.append(share[-SEED_SIZE:])
        verifiers = np.split(total % self.circuit.field.modulus, self.proofs)
        if not all(map(self.circuit.decide, verifiers)):
            raise InvalidReportError("the proof of a report is not accepted: leave it out")
        return self._joint_rand_seed(parts)

    def check_seed(self, seed: bytes, message: bytes) -> None:
        """Raise InvalidReportError if client and servers derived different joint randomness."""
        if not secrets.compare_digest(seed, message):
            raise InvalidReportError("shares of a report do not belong together: leave it out")

    def unshard(self, sums: Iterable[Elements]) -> Elements:
        """Add up all servers' sums mod p, and return the result's representatives in (−p/2, p/2)."""
        modulus = self.circuit.field.modulus
        total = sum(sums, np.zeros(1, object)) % modulus
        return np.where(total > modulus // 2, total - modulus, total)

    def measurement_share(self, server: int, share: bytes) -> Elements:
        """Return a server's share of the measurement; a helper's is expanded from its first seed."""
        if not server:
            return self.circuit.field.decode(share[: self.circuit.length * self.circuit.field.size])
        seed, binder = share[:SEED_SIZE], bytes([server])
        tag = self._tag(Usage.MEASUREMENT_SHARE)
        return self.circuit.field.expand(seed, tag, binder, self.circuit.length)

    def _proofs(self, server: int, share: bytes) -> Elements:
        """Return a server's share of the proofs; a helper's is expanded from its second seed."""
        if not server:
            start = self.circuit.length * self.circuit.field.size
            return self.circuit.field.decode(share[start:-SEED_SIZE])
        seed, length = share[SEED_SIZE : 2 * SEED_SIZE], self.proofs * self.circuit.proof_length
        return self._expand(Usage.PROOF_SHARE, seed, bytes([server]), length)

    def _part(self, server: int, blind: bytes, nonce: bytes, encoded: bytes) -> bytes:
        return self._derive(Usage.JOINT_RAND_PART, blind, bytes([server]) + nonce + encoded)

    def _joint_rand_seed(self, parts: list[bytes]) -> bytes:
        return self._derive(Usage.JOINT_RAND_SEED, bytes(SEED_SIZE), b"".join(parts))

    def _joint_rands(self, seed: bytes) -> Elements:
        length = self.circuit.joint_rand_length * self.proofs
        return self._expand(Usage.JOINT_RANDOMNESS, seed, b"", length)

    def _expand(self, usage: Usage, seed: bytes, binder: bytes, length: int) -> Elements:
        """Draw elements for all proofs from a seed."""
        binder = bytes([self.proofs]) + binder
        return self.circuit.field.expand(seed, self._tag(usage), binder, length)

    def _derive(self, usage: Usage, seed: bytes, binder: bytes) -> bytes:
        tag = self._tag(usage)
        return turboshake128(bytes([len(tag)]) + tag + seed + binder, SEED_SIZE)

    def _tag(self, usage: Usage) -> bytes:
        """Return the domain separation tag (6.2.3)."""
        head = bytes([_VERSION, 0]) + self.circuit.algorithm.to_bytes(4, "big")
        return head + usage.to_bytes(2, "big")


def _seeds(data: bytes) -> list[bytes]:
    return [data[k : k + SEED_SIZE] for k in range(0, len(data), SEED_SIZE)]

r"""Additive shares of a record's counts for two servers: each share alone is noise.

**Contribution.** A record adds an integer vector $v ∈ Z^L$ of public length to the sums of a query
(`privot.central.sums`): for a table, the products of all pairs of its codes; for a labeled image, the
products of its low frequencies and its label (`LabeledProducts`). The device draws a seed s of 32 bytes
and sends, over two encrypted connections,

$$ \text{to the helper } s, \qquad \text{to the leader } x = v + G(s) \bmod 2^{64} , $$

where G(s) is SHAKE128's output, read as L little-endian words. Both shares carry the same 16 random
bytes as an id, and the encoder's fingerprint. The sum of x minus the sum of G(s) over the same ids is
$\sum v$.

**One server's view.** The helper's seeds are independent of records. The leader's x is encrypted by a
one-time pad: with pads uniform on $(Z/2^{64})^L$ in place of G(s), x is uniform for *every* v, since
adding v is a bijection. To distinguish x from uniform words is to distinguish SHAKE128 of an unknown
256-bit seed from them, for which no attack in less than $2^{128}$ steps is known. Both shares together
are the record.

**No wrap-around.** Let w be a vector of norm at most R. A contribution v is w itself, with entries of at
most R, or consists of w's scaled products (`DIAGONAL`, `OTHER`), at most $29 R^2$ for a square and
$41 |w_i w_j| ≤ 41 R^2/2$ for two coordinates. A sum has at most n records, where

$$ n · \max(R, 29 R^2) < 2^{62} . $$

Noise has $σ ≤ 2^{40}$ (more is refused), and exceeds $2^{60}$, which is $2^{20}$ standard deviations,
with a probability below $e^{-2^{38}}$. So honest sums with both noises lie within $±2^{63}$, and signed
words hold them without loss.

**Honest clients.** Without proofs, a dishonest client can move any count by any amount. Nobody's privacy
depends on that: noise hides one record among any others.

**With proofs** (`Encoder.proofs`) shares are those of `privot.aggregated.prio3`: in a field of $2^{128}$
numbers instead of mod $2^{64}$, with a proof that v is some record's, the id as nonce, and seeds of 16
bytes. A client can then add no more than one record can. Servers open only shares that both verified.

**Browsers** make the same shares by the integers of `Encoder.program`; servers recompute the program.

**Privacy review.** Adjacency: batches of equal size that differ in one unit's record. Δ is the query's
(`privot.central.sums.sensitivity`); contributions that break its bounds count as zeros, as with a
curator. Lengths are public; ids and seeds are random bytes from the system. The time to encode, and a
refusal, depend on the record, and are seen on the device alone. `encode_table` is for simulations: it
reads all records.

References:
    Corrigan-Gibbs, Boneh, *Prio: private, robust, and scalable computation of aggregate statistics*
    (2017), also for a seed in place of a share.
"""

import hashlib
import json
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privot.aggregated.fields import Elements
from privot.aggregated.prio3 import Levels, Pairs, Prio3
from privot.central.fitting import OneSumFit, SumSettings, fit_of, kind_of_records, raw_table
from privot.central.pyramid import Pyramid
from privot.central.sums import DIAGONAL, OTHER, Budget, Query, SumPlan, contributions, sensitivity
from privot.central.table_fit import PairCounts, TableFit
from privot.core.errors import MOST_PEOPLE, PrivotError, require_count
from privot.core.files import read_text, write_file
from privot.core.summary import Summarized
from privot.mechanisms.samplers import check_ratio
from privot.privacy import ApproximateDP, DistributedDP, gaussian_epsilon
from privot.schema.schema import Promise, Schema
from privot.tables.files import as_table

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Role = Literal["leader", "helper"]

ROLES: tuple[Role, ...] = ("leader", "helper")
_SEED_BYTES, _ID_BYTES = 32, 16
_CHUNK = 256  # records encoded together
_FORMAT, _PROGRAM_VERSION = 2, 2  # versions of the JSON, and of the program in it
_MOST_SUM = 2**62  # so that sums do not wrap around


def expand(seed: bytes, length: int) -> Words:
    """Return the words G(s) (length,) to which a seed is expanded."""
    return as_words(hashlib.shake_128(seed).digest(8 * length))


def as_words(data: bytes) -> Words:
    """Return little-endian words as numbers mod 2^64."""
    return np.frombuffer(data, "<u8")


@dataclass(frozen=True, repr=False)
class SumRule(Summarized):
    """Public rule of a round of sums: the contribution of a record, and the noise of a release.

    It follows from the schema alone, so that the sums of several curators of one schema add up.

    Arguments:
        schema: Columns of a record, and the promise: `where = "central"`, of each curator.
        stddev: Standard deviation σ of the noise on the integer sums.

    Raises:
        PrivotError: if the noise does not keep the promise, sums could wrap around, or the records
            take several rounds of sums.

    Examples:
        >>> promise = {"epsilon": 1, "where": "central", "delta": 1e-6, "people": 1000}
        >>> schema = Schema.from_dict({"columns": {"old": {"kind": "boolean"}}, "promise": promise})
        >>> rule = SumRule.calibrate(schema)
        >>> print(rule.guarantee(1000))
        ε = 1, δ = 1e-06, replace_one, per person
    """

    schema: Schema
    stddev: float

    where: ClassVar[str] = "central"  # place of trust in the promise
    noun: ClassVar[str] = "rule of the sums"  # in error messages, as are the next two
    counted: ClassVar[str] = "records"
    published: ClassVar[str] = "released"
    num_noises: ClassVar[int] = 1  # number of noises, each of stddev σ, in the sums of a batch
    own_fields: ClassVar[dict[str, type]] = {}  # fields that a subclass adds, with their types

    def __post_init__(self) -> None:
        found = self.guarantee(self.people)
        if found.epsilon > self.promise.epsilon:
            raise PrivotError(
                f"stddev {self.stddev!r} gives {found}, the promise is {self.promise}: calibrate again"
            )
        check_ratio(self.stddev)
        self.require_room(self.people)

    @classmethod
    def calibrate(cls, schema: Schema, **own_fields: Any) -> Self:
        """Choose the least noise by which each curator or server keeps the schema's promise alone.

        Arguments:
            schema: Columns of a record, and the promise.
            **own_fields: Other arguments of the class.

        Raises:
            PrivotError: as the class, and if noise would hide all that is learned.
        """
        fitted = one_round_fit(schema, cls.where)
        plan = fitted.plan()
        assert isinstance(plan, SumPlan)
        return cls(schema, plan.stddev(fitted.query), **own_fields)

    @property
    def promise(self) -> Promise:
        """The promise of the schema."""
        return _promise(self.schema, self.where)

    @property
    def people(self) -> int:
        """The least number of reports, or records, that are released together."""
        return self.promise.people or 1

    @cached_property
    def fitted(self) -> OneSumFit:
        """The curator's fit for the least number of records, which defines query and contributions."""
        return one_round_fit(self.schema, self.where)

    @property
    def query(self) -> Query:
        """The query whose sums are released."""
        return self.fitted.query

    @cached_property
    def length(self) -> int:
        """Number L of integers that a record adds."""
        width = self.query.width
        return self.query.slots * (width if self.query.moment == 1 else width * (width + 1) // 2)

    def guarantee(self, count: int) -> ApproximateDP | DistributedDP:
        """Return the guarantee of a batch of `count` reports or records, computed from σ and Δ.

        Raises:
            PrivotError: if they are fewer than the promise's people.
        """
        if count < self.people:
            raise PrivotError(
                f"{count:,} {self.counted} are fewer than the promise's {self.people:,}: wait for more; "
                f"fewer are not {self.published}"
            )
        delta = self.promise.delta
        epsilon = gaussian_epsilon(self.stddev, sensitivity(self.query), delta)
        return ApproximateDP(epsilon, delta, "replace_one", self.schema.unit)

    def require_room(self, count: int) -> None:
        """Raise PrivotError if sums of `count` reports could wrap around."""
        radius = math.ceil(self.query.radius)
        most = radius if self.query.moment == 1 else DIAGONAL * radius**2
        if require_count("reports", count, MOST_PEOPLE) * most >= _MOST_SUM:
            raise PrivotError(
                f"sums of {count:,} reports could wrap around: open at most {(_MOST_SUM - 1) // most:,} "
                "together"
            )

    def summary(self) -> dict[str, object]:
        return {"promise": self.promise, "counts": self.length, "stddev": self.stddev}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the public numbers of the query."""
        names = ("slots", "width", "radius", "moment")
        query = {name: getattr(self.query, name) for name in names}
        fields = {"format": _FORMAT, "schema": self.schema.to_dict(), "stddev": self.stddev}
        own_fields = {name: getattr(self, name) for name in self.own_fields}
        return fields | {"query": query} | own_fields

    def to_json(self) -> str:
        """Return canonical JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read canonical JSON; raise PrivotError if it is not canonical, or breaks the promise."""
        try:
            fields = json.loads(text)
            own_fields = {name: kind(fields[name]) for name, kind in cls.own_fields.items()}
            schema, stddev = Schema.from_dict(fields["schema"]), float(fields["stddev"])
            found = cls(schema, stddev, **own_fields)
        except (KeyError, TypeError, ValueError) as error:
            raise PrivotError(
                f"the {cls.noun} cannot be used ({error}): calibrate it again"
            ) from None
        if found.to_json() != text.strip():
            raise PrivotError(
                f"the {cls.noun} was altered, or sums what this version of privot does not: calibrate "
                "it again, or use the version that did"
            )
        return found


@dataclass(frozen=True, repr=False)
class Encoder(SumRule):
    """Public rule by which devices make shares, with the noise that each server adds.

    Arguments:
        schema: Columns of a record, and the promise: `where = "aggregated"`.
        stddev: Standard deviation σ of each server's noise on the integer sums.
        proofs: Whether shares prove that they are those of a record.
        campaign: Random public name, so that another campaign of the same schema refuses the shares.

    Examples:
        >>> promise = {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 1000}
        >>> schema = Schema.from_dict({"columns": {"old": {"kind": "boolean"}}, "promise": promise})
        >>> encoder = Encoder.calibrate(schema)
        >>> print(encoder.guarantee(1000))
        ε = 1, δ = 1e-06 if one of the two servers is honest, else nothing, replace_one, per person
        >>> [len(share) for share in encoder.encode({"old": True})]
        [73, 81]
    """

    proofs: bool = False
    campaign: str = field(default_factory=partial(secrets.token_hex, _ID_BYTES))

    where = "aggregated"
    noun = "encoder"
    counted = "reports"
    published = "opened"
    num_noises = len(ROLES)
    own_fields: ClassVar[dict[str, type]] = {"proofs": bool, "campaign": str}

    def __post_init__(self) -> None:
        if self.proofs:
            _ = self.prio3  # refuses records without a circuit
        super().__post_init__()

    def guarantee(self, count: int) -> DistributedDP:
        """See `SumRule`: the guarantee if one of the two servers is honest."""
        alone = super().guarantee(count)
        return DistributedDP(alone.epsilon, alone.delta, "aggregated", count, unit=alone.unit)

    @property
    def sums_size(self) -> int:
        """Number of bytes of the sums that a server publishes."""
        return self.length * (self.prio3.circuit.field.size if self.proofs else 8)

    @cached_property
    def prio3(self) -> Prio3:
        """Scheme of shares with proofs; raise PrivotError if there is no circuit for the records."""
        query = self.query
        if isinstance(query, Pyramid):
            return Prio3(Levels(query.sizes, query.nullable))
        if not isinstance(query, PairCounts):
            raise PrivotError(
                "proofs are for columns with codes or numbers, or one place, and this schema has "
                "images: calibrate without proofs"
            )
        weights = query.weights[query.column_of_code]
        rows, columns = np.triu_indices(query.width)
        scales = np.where(rows == columns, DIAGONAL, OTHER) * weights[rows] * weights[columns]
        return Prio3(Pairs(np.bincount(query.column_of_code).tolist(), scales))

    @cached_property
    def program(self) -> dict[str, Any] | None:
        """Integers by which browsers make contributions (`docs/reference/wire.md`); None for images."""
        query, program = self.query, None
        if isinstance(query, PairCounts):
            program = self._pairs_program(query)
        elif isinstance(query, Pyramid):
            ((name, column),) = self.schema.columns.items()
            levels = {"column": name, "halvings": [*query.levels]}
            program = {"columns": {name: column.point_program(name)}, "levels": levels}
        if program is None or None in program["columns"].values():
            return None
        unread = list(self.schema.unread_columns)
        return {"version": _PROGRAM_VERSION, "length": self.length, "unread": unread} | program

    def _pairs_program(self, query: PairCounts) -> dict[str, Any]:
        """Return each column's program, its weight, and the codes of its atoms in every coding."""
        coded, pairs = self.schema.coded, []
        assert isinstance(self.fitted, TableFit)
        for name, atoms, weight in zip(
            coded, self.fitted.records.atoms, query.weights, strict=True
        ):
            (codings,) = atoms.codings  # those of the only release
            codes = [coding.codes.tolist() for coding in codings]
            pairs.append({"column": name, "weight": int(weight), "codes": codes})
        columns = {
            name: column.code_program(name, column.codings) for name, column in coded.items()
        }
        return {"columns": columns, "pairs": pairs}

    def encode(self, record: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """Return a record's shares for the leader and for the helper, made with fresh randomness.

        A device stores both until both servers have answered, and resends the same bytes if it got no
        answer, because a second encoding is a second report.

        Raises:
            PrivotError: if the schema does not allow the record; by default, values out of bounds.
        """
        table = as_table({name: [value] for name, value in record.items()})
        self.schema.check_table(table, out_of_bounds="refuse")
        (shares,) = self.encode_table(table)
        return shares

    def encode_table(self, data: Any) -> Iterator[tuple[bytes, bytes]]:
        """Yield the shares of many records (a table with the schema's columns), in their order."""
        for vectors in self.contributions(data):
            for vector in vectors:
                report_id = secrets.token_bytes(_ID_BYTES)
                bodies = self._proven(vector, report_id) if self.proofs else self._padded(vector)
                heads = [self.head(role) + report_id for role in ROLES]
                yield heads[0] + bodies[0], heads[1] + bodies[1]

    def _padded(self, vector: Words) -> tuple[bytes, bytes]:
        """Return the bodies of the shares without proofs: x for the leader, s for the helper."""
        seed = secrets.token_bytes(_SEED_BYTES)
        return (vector + expand(seed, self.length)).astype("<u8").tobytes(), seed

    def _proven(self, vector: Words, report_id: bytes) -> tuple[bytes, bytes]:
        """Return the bodies of the shares with proofs, whose nonce is the id."""
        measurement = self.prio3.circuit.measurement_of(vector.view(np.int64))
        public, (leader, helper) = self.prio3.shard(measurement, report_id)
        return public + leader, public + helper

    def total(self, bodies: Iterable[bytes], role: Role, noise: Integers) -> bytes:
        """Return the encoded sum of a server's shares and its noise (L,), which the server publishes."""
        server = ROLES.index(role)
        if not self.proofs:
            words = noise.astype(np.uint64)  # a copy, mod 2^64
            for body in bodies:
                words += -expand(body, self.length) if server else as_words(body)
            return words.astype("<u8").tobytes()
        prio3, start = self.prio3, self.prio3.public_share_size
        total: Elements = np.zeros(prio3.circuit.length, object)
        for body in bodies:
            total = total + prio3.measurement_share(server, body[start:])
        prime = prio3.circuit.field
        return prime.encode((prio3.circuit.truncate(total) + noise) % prime.modulus)

    def opened(self, leader: bytes, helper: bytes) -> Integers:
        """Return the sums (L,) with both noises, from the sums that the servers published.

        Raises:
            PrivotError: if the numbers are no sums of the same reports' shares.
        """
        if not self.proofs:
            return (as_words(leader) + as_words(helper)).view(np.int64)
        prime = self.prio3.circuit.field
        sums = self.prio3.unshard([prime.decode(leader), prime.decode(helper)])
        if (abs(sums) >= 2**63).any():
            raise PrivotError("the two sums are not of the same reports' shares: copy them again")
        return sums.astype(np.int64)

    def contributions(self, data: Any) -> Iterator[Words]:
        """Yield the contributions v of a table's records, in chunks (n, L): **not private**."""
        parts = self.fitted.records.encode(raw_table(data, self.schema))
        for start in range(0, len(parts[0]), _CHUNK):
            chunk = tuple(np.asarray(part[start : start + _CHUNK]) for part in parts)
            yield contributions(self.query, chunk).view(np.uint64)

    def read_share(self, share: bytes, role: Role) -> tuple[bytes, bytes]:
        """Return the id of a share that a server received, and its words or seed.

        Raises:
            PrivotError: if it is for the other server, of another encoder, or of another length.
        """
        head, length = self.head(role), self.share_length(role)
        if share[: len(head)] != head:
            raise PrivotError(
                f"a share is not for the {role}, or of another encoder: send it there"
            )
        if len(share) != length:
            raise PrivotError(
                f"a share has {len(share):,} bytes, not {length:,}: send it again, whole"
            )
        rest = share[len(head) :]
        return rest[:_ID_BYTES], rest[_ID_BYTES:]

    def share_length(self, role: Role) -> int:
        """Return the number of bytes of a share, which is a head, the id, and words or a seed."""
        if self.proofs:
            body = self.prio3.public_share_size + self.prio3.input_share_size(ROLES.index(role))
        else:
            body = _SEED_BYTES if role == "helper" else 8 * self.length
        return len(self.head(role)) + _ID_BYTES + body

    def head(self, role: Role) -> bytes:
        """Return the first bytes of a server's shares: the encoder's fingerprint, and its number."""
        return bytes.fromhex(self.fingerprint) + bytes([ROLES.index(role)])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON, in 64 hexadecimal digits; it is part of shares and ledgers."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the query's public numbers and a browser's program."""
        return super().to_dict() | {"device": self.program}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read `encoder.json`."""
        return cls.from_json(read_text(path, "encoder"))

    def save(self, path: str | Path) -> None:
        """Write `encoder.json`; if writing fails, an existing file stays."""
        write_file(path, self.to_json() + "\n")


def one_round_fit(schema: Schema, where: str, settings: SumSettings | None = None) -> OneSumFit:
    """Return the curator's fit for the promise's people; raise PrivotError if it has several rounds."""
    promise = _promise(schema, where)
    budget = Budget(promise.epsilon, promise.delta, promise.people or 1, schema.unit)
    fitted = None
    if kind_of_records(schema):
        fitted = fit_of(schema, settings or SumSettings(), budget, one_round=True)
    if not isinstance(fitted, OneSumFit):
        raise PrivotError(
            f"columns {', '.join(schema.columns)} are not learned from one round of sums, and sums "
            "that add up are of one: let one curator fit them, promise 'shuffled', or leave columns out"
        )
    return fitted


def _promise(schema: Schema, where: str) -> Promise:
    promise = schema.promise
    if promise is None or promise.where != where:
        raise PrivotError(
            f"the schema promises {promise or 'nothing'}: declare [promise] with where = {where!r}"
        )
    return promise

r"""Shares of a record's counts for two servers: each is noise by itself, both together are the counts.

**Contribution.** A record adds an integer vector $v ∈ Z^L$ of public length to the sums of a query
(`privot.central.sums`): for a table the products of all pairs of its codes. The device draws a seed $s$ of
32 bytes and sends, over two encrypted connections,

$$ \text{helper: } s, \qquad \text{leader: } x = v + G(s) \bmod 2^{64} , $$

with $G$ SHAKE128, read as L little-endian words. Both carry the same 16 random bytes as an id, and the
encoder's fingerprint. Sums of $x$ less sums of $G(s)$, over the same ids, are $\sum v$.

**One server's view.** The helper's seeds are drawn without looking at the record: no secret is in them,
whatever its computing power. The leader's $x$ is a one-time pad: if $G(s)$ were uniform on
$(Z/2^{64})^L$, so would be $x$, for every $v$, since adding $v$ is a bijection. Whoever tells $x$ from
uniform words tells SHAKE128 of an unknown 256-bit seed from uniform words; no attack below $2^{128}$ steps
is known. Noise is added by the servers (`privot.aggregated.server`): shares are secret, and both together
are the record.

**No wrap-around.** An entry of v is at most R in absolute value for sums of vectors of length R, and at
most $29 R^2$ for scaled products ($41 |v_i v_j| ≤ 41 R^2/2$ off the diagonal). The sum over n honest people
is below $2^{62}$ where

$$ n · \max(R, 29 R^2) < 2^{62} , $$

which is refused otherwise. The noise of each server has $σ ≤ 2^{40}$ (larger ones are refused), so it
exceeds $2^{60}$ only at $2^{20}$ standard deviations, which has a probability below $e^{-2^{38}}$. Sums and
both noises therefore lie within $±2^{63}$, and are read as signed words without loss.

**Honest clients.** Nothing proves that v is a record's. One liar can add *any* vector mod $2^{64}$: move
every count by any amount, or make all of them useless, and is found out only if the result cannot be. An
honest person's privacy does not depend on what liars add: the noise hides one record among any others.
(Proofs of validity, as by Prio3, would bound a liar to one record.)

**Privacy review.** Adjacency: batches of equal size that differ in one unit's record; Δ is the query's
(`privot.central.sums.sensitivity`). On the device, contributions that break the query's bounds count as
zeros, as with a curator. Lengths of shares are public constants, ids and seeds come from the system.
What depends on the record besides is the time to encode it, on its holder's device, and a refusal.
`encode_table` sees all records in their order: it is for simulations.

References:
    Corrigan-Gibbs, Boneh, *Prio: private, robust, and scalable computation of aggregate statistics* (2017).
    Boyle, Gilboa, Ishai, *Function secret sharing: improvements and extensions* (2016), for seeds as shares.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privot.central.fitting import SumFit, SumSettings, fit_of, kind_of_records, raw_table
from privot.central.sums import Budget, Query, SumPlan, contributions, sensitivity
from privot.core.errors import MOST_PEOPLE, PrivotError, require_count
from privot.core.files import replacing_file
from privot.core.summary import Summarized
from privot.privacy import DistributedDP, gaussian_epsilon
from privot.privacy.rounding import require_finite
from privot.schema import Schema
from privot.schema.promise import Promise

Words = NDArray[np.uint64]
Role = Literal["leader", "helper"]

ROLES: tuple[Role, ...] = ("leader", "helper")
SEED_BYTES, ID_BYTES, WORD_BYTES = 32, 16, 8
_HEAD = 32 + 1 + ID_BYTES  # fingerprint, role, id
_FORMAT, _CHUNK = 1, 256
_ROOM = 2**62


def expand(seed: bytes, length: int) -> Words:
    """Return the words G(s) (length,) of a seed.

    >>> expand(bytes(32), 2).dtype, len(expand(bytes(32), 3))
    (dtype('uint64'), 3)
    """
    return np.frombuffer(hashlib.shake_128(seed).digest(WORD_BYTES * length), "<u8")


def seal(**fields: Any) -> str:
    """Return fields as canonical JSON that ends with the SHA-256 of what stands before."""
    fields = {"format": _FORMAT} | fields
    text = json.dumps(fields, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(fields | {"fingerprint": digest}, separators=(",", ":"))


def unseal(path: str | Path, text: str | bytes) -> dict[str, Any]:
    """Read the fields of a sealed file's text; refused if it was damaged or altered."""
    try:
        fields: dict[str, Any] = json.loads(text)
        digest, version = fields.pop("fingerprint"), fields["format"]
        plain = json.dumps(fields, separators=(",", ":"))
        whole = hashlib.sha256(plain.encode()).hexdigest() == digest
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise PrivotError(
            f"{path} cannot be read ({error}): copy it again from who wrote it"
        ) from None
    if version != _FORMAT:
        raise PrivotError(f"{path} has format {version!r}, this version of privot reads {_FORMAT}")
    if not whole:
        raise PrivotError(f"{path} was damaged or altered: copy it again from who wrote it")
    return fields


class Share(NamedTuple):
    """A share, read: the report's id, and a seed or words."""

    id: bytes
    body: bytes


@dataclass(frozen=True, repr=False)
class Encoder(Summarized):
    """The public rule by which devices make shares, and the noise that each server adds.

    Arguments:
        schema: Columns of a record, and the promise: `where = "aggregated"`.
        stddev: Standard deviation σ of each server's noise on the integer sums.

    Raises:
        PrivotError: if the noise does not keep the promise, or sums could wrap around.

    Examples:
        >>> from privot.schema.promise import Promise
        >>> schema = Schema.from_dict({
        ...     "columns": {name: {"kind": "boolean"} for name in ("old", "sick")},
        ...     "promise": {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 1000},
        ... })
        >>> encoder = Encoder.calibrate(schema)
        >>> print(encoder.guarantee(1000))
        ε = 1, δ = 1e-06 if one of the two servers is honest, else nothing, replace_one, per person
        >>> [len(share) for share in encoder.encode({"old": True, "sick": False})]
        [129, 81]
    """

    schema: Schema
    stddev: float

    def __post_init__(self) -> None:
        require_finite("stddev", self.stddev, positive=True)
        promise, found = self.promise, self.guarantee(self.people)
        if found.epsilon > promise.epsilon:
            raise PrivotError(
                f"stddev {self.stddev!r} keeps {found}, and the promise is {promise}: calibrate again"
            )
        self.require_room(self.people)
        if self.stddev > 2.0**40:
            raise PrivotError(
                f"epsilon {promise.epsilon!r}: noise of stddev {self.stddev:.3g} cannot be drawn exactly; "
                "give a larger epsilon"
            )

    @classmethod
    def calibrate(cls, schema: Schema) -> Self:
        """Choose the least noise of one server that keeps the schema's promise alone.

        Raises:
            PrivotError: if the schema promises something else, its records take several rounds of sums,
                or noise would hide what is learned.
        """
        promise = _promise(schema)
        fitted = one_round_fit(schema, promise.people or 1)
        plan = fitted.plan()
        assert isinstance(plan, SumPlan)
        assert fitted.query is not None
        return cls(schema, sensitivity(fitted.query) / plan.ratios[0])

    @property
    def promise(self) -> Promise:
        """The promise of the schema."""
        return _promise(self.schema)

    @property
    def people(self) -> int:
        """The least number of reports that are opened together."""
        return self.promise.people or 1

    @cached_property
    def fitted(self) -> SumFit:
        """The curator's fit of such records, whose query and map of records devices use."""
        return one_round_fit(self.schema, self.people)

    @cached_property
    def query(self) -> Query:
        """The query whose sums are opened."""
        assert self.fitted.query is not None
        return self.fitted.query

    @cached_property
    def length(self) -> int:
        """Number L of words of a contribution."""
        width = self.query.width
        entries = width if self.query.moment == 1 else width * (width + 1) // 2
        return self.query.slots * entries

    def guarantee(self, count: int) -> DistributedDP:
        """Return the guarantee of a batch of so many reports, computed from σ and Δ.

        Raises:
            PrivotError: if they are fewer than the promise's people.
        """
        if count < self.people:
            raise PrivotError(
                f"{count:,} reports are in both servers' batch, and the promise is of {self.people:,} or "
                "more: wait for more; fewer are not opened"
            )
        delta = self.promise.delta
        epsilon = gaussian_epsilon(self.stddev, sensitivity(self.query), delta)
        return DistributedDP(epsilon, delta, "aggregated", count, unit=self.schema.unit)

    def require_room(self, count: int) -> None:
        """Refuse so many reports that sums could wrap around."""
        radius = int(self.query.radius)
        most = radius if self.query.moment == 1 else 29 * radius**2
        if require_count("people", count, MOST_PEOPLE) * most >= _ROOM:
            raise PrivotError(
                f"sums of {count:,} reports could wrap around: open at most {(_ROOM - 1) // most:,} "
                "together, or give the columns fewer codes"
            )

    def encode(self, record: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """Return a record's shares for the leader and for the helper, by fresh randomness.

        A device stores both until both servers have them, and sends the same bytes again if need be: a
        second encoding is a second report.

        Raises:
            PrivotError: for a record that the schema does not allow.
        """
        (shares,) = self.encode_table({name: [value] for name, value in record.items()})
        return shares

    def encode_table(self, data: Any) -> Iterator[tuple[bytes, bytes]]:
        """Yield the shares of many records, in their order, as each person's device makes them.

        Arguments:
            data: A table (pandas, polars, pyarrow, dict) with the schema's columns.
        """
        records = [
            np.asarray(part) for part in self.fitted.records.encode(raw_table(data, self.schema))
        ]
        for start in range(0, len(records[0]), _CHUNK):
            vectors = contributions(
                self.query, tuple(part[start : start + _CHUNK] for part in records)
            )
            for vector in vectors.view(np.uint64):
                yield self._split(vector)

    def _split(self, vector: Words) -> tuple[bytes, bytes]:
        report_id, seed = secrets.token_bytes(ID_BYTES), secrets.token_bytes(SEED_BYTES)
        padded = (vector + expand(seed, self.length)).astype("<u8").tobytes()
        return self._head("leader") + report_id + padded, self._head("helper") + report_id + seed

    def read_share(self, share: bytes, role: Role) -> Share:
        """Check a share that somebody sent to a server, and take it apart.

        Raises:
            PrivotError: if it is for the other server, another encoder or another length.
        """
        length = SEED_BYTES if role == "helper" else WORD_BYTES * self.length
        if len(share) != _HEAD + length:
            raise PrivotError(
                f"a share has {len(share):,} bytes, those for the {role} have {_HEAD + length:,}: send "
                "what this encoder makes"
            )
        if share[:33] != self._head(role):
            raise PrivotError(
                f"a share is for another server than the {role}, or of another encoder"
            )
        return Share(share[33:_HEAD], share[_HEAD:])

    def _head(self, role: Role) -> bytes:
        return bytes.fromhex(self.fingerprint) + bytes([ROLES.index(role)])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON, 64 digits, which shares and sums carry."""
        return str(json.loads(self.to_json())["fingerprint"])

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        return {"promise": self.promise, "words of a share": self.length, "stddev": self.stddev}

    def to_json(self) -> str:
        """Canonical JSON, with the query's public numbers and the fingerprint."""
        return self._text

    @cached_property
    def _text(self) -> str:
        query = self.query
        summed = {"slots": query.slots, "width": query.width, "radius": int(query.radius)}
        return seal(
            schema=self.schema.to_dict(),
            stddev=self.stddev,
            query=summed | {"moment": query.moment},
        )

    @classmethod
    def from_json(cls, text: str | bytes, path: str | Path = "the encoder") -> Self:
        """Read the canonical JSON; refused if it was altered, or keeps no promise, or sums otherwise."""
        fields = unseal(path, text)
        try:
            encoder = cls(Schema.from_dict(fields["schema"]), float(fields["stddev"]))
        except (KeyError, TypeError, ValueError) as error:
            raise PrivotError(f"{path} is no encoder ({error}): calibrate it again") from None
        if json.loads(encoder.to_json()) != json.loads(text):
            raise PrivotError(
                f"{path} sums something else than this version of privot does for its schema: use the "
                "version that calibrated it"
            )
        return encoder

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read `encoder.json`."""
        return cls.from_json(read_text(path), path)

    def save(self, path: str | Path) -> None:
        """Write `encoder.json`; an existing file survives any failure."""
        with replacing_file(path) as draft:
            draft.write_text(self.to_json() + "\n", encoding="utf-8")


def read_text(path: str | Path) -> str:
    """Read a sealed file's text."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PrivotError(f"{path} cannot be read: {error}") from None


def one_round_fit(schema: Schema, count: int, settings: SumSettings | None = None) -> SumFit:
    """Return the curator's fit of so many records, if it takes one round of sums."""
    promise = _promise(schema)
    budget = Budget(promise.epsilon, promise.delta, count, schema.unit)
    fitted = fit_of(schema, settings or SumSettings(), budget) if kind_of_records(schema) else None
    if not isinstance(fitted, SumFit) or fitted.query is None:
        raise PrivotError(
            f"columns {', '.join(schema.columns)} are not learned from one round of sums, which is all "
            "that two servers open: promise 'central' or 'shuffled', or leave columns out"
        )
    return fitted


def _promise(schema: Schema) -> Promise:
    promise = schema.promise
    if promise is None or promise.where != "aggregated":
        raise PrivotError(
            f"the schema promises {promise or 'nothing'}: declare [promise] with where = 'aggregated'"
        )
    return promise

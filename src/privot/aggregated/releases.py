"""Noisy sums of batches of people, which can be merged, and the model that is learned from them.

**Two servers.** The sums that leader and helper published, added mod 2^64 and read as signed words, are
the counts of a batch with two independent Gaussian noises of stddev σ, together √2 σ; a curator's noise
would be σ. **Several curators** of one schema each release noisy sums of their records (`count`).

**Merging.** Sums of k batches add up, exactly and in any order, and so do the variances of their noise:
its stddev is √k times that of one. No batch counts twice: its name is the digest of its reports' ids, or
the random number of a curator's ledger, and sums that have a name in common are refused.

**Learning** is that of `privot.central`, with the same likelihood; images are learned by one round.

**Privacy review.** Adjacency: batches of public size that differ in one unit's record (`replace_one`).
σ and the query's Δ are functions of the schema; the guarantee is computed from them, not read from a
file. Only `count` reads records: its noise, ledger and account are those of `privot.central.sums`, and
its file has the noised sums, the number of records and a random name. All else is a function of released
sums. Whoever merges sees each batch with its own noise, so the guarantee is that of one batch with its
own σ. **Each unit must be in one batch**, which nobody can verify: a record in two batches spends both ε
and δ. A curator or server that adds too little noise breaks its own part of the promise. Files are not
signed: take them from the servers and the curators themselves.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from privot.aggregated.server import sealed, unsealed
from privot.aggregated.shares import ROLES, Encoder, Role, SumRule, one_round_fit
from privot.central.fitting import LawModel, SumSettings, raw_records, stored_law
from privot.central.sums import Integers, SumMechanism, SumPlan, noisy_sums
from privot.core.errors import PrivotError
from privot.core.files import read_text, write_file
from privot.models import ModelKind, Stored, Sums
from privot.privacy import ApproximateDP, DistributedDP
from privot.privacy.ledger import Ledger
from privot.schema import Schema

_RULES: dict[str, type[SumRule]] = {kind.where: kind for kind in (SumRule, Encoder)}


@dataclass(frozen=True, eq=False, repr=False)
class SumRelease(Sums):
    """Noisy sums of one or several batches of different people.

    Arguments:
        rule: Rule of the sums; the encoder of the reports, if two servers summed them.
        batches: Number of reports, or of a curator's records, by the name of the batch.
        sums: Noised integer sums (L,).

    Raises:
        PrivotError: if a batch is smaller than the promise's people, or the sums have another length.

    Examples:
        >>> promise = {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 1000}
        >>> schema = Schema.from_dict({"columns": {"old": {"kind": "boolean"}}, "promise": promise})
        >>> encoder, sums = Encoder.calibrate(schema), np.zeros(3, np.int64)
        >>> release = SumRelease(encoder, {"monday": 1200}, sums)
        >>> merged = release.merge(SumRelease(encoder, {"tuesday": 1100}, sums))
        >>> len(merged), [round((part.stddev / encoder.stddev) ** 2) for part in (release, merged)]
        (2300, [2, 4])
    """

    rule: SumRule
    batches: Mapping[str, int]
    sums: Integers

    def __post_init__(self) -> None:
        _ = self.guarantee  # raises if a batch is too small
        self.rule.require_room(len(self))
        if self.sums.shape != (self.rule.length,):
            raise PrivotError(f"sums must be {self.rule.length:,}, not {self.sums.size:,}")

    def __len__(self) -> int:
        return sum(self.batches.values())

    @property
    def guarantee(self) -> ApproximateDP | DistributedDP:
        """Guarantee for each unit of any batch; by two servers, it holds if one of them is honest."""
        return self.rule.guarantee(min(self.batches.values(), default=0))

    @property
    def stddev(self) -> float:
        """Standard deviation of all noise on the integer sums."""
        return math.sqrt(self.rule.num_noises * len(self.batches)) * self.rule.stddev

    def summary(self) -> dict[str, object]:
        numbers = {"reports": f"{len(self):,}", "batches": f"{len(self.batches):,}"}
        return numbers | {"guarantee": self.guarantee}

    def merge(self, *others: Self) -> Self:
        """Add up sums of different batches of one rule.

        Raises:
            PrivotError: if rules differ, or two sums have a batch in common.
        """
        for other in others:
            if other.rule.to_json() != self.rule.to_json():
                raise PrivotError(
                    "sums are of two rules: merge those of one schema, and of one campaign's encoder"
                )
        batches = dict(self.batches)
        for other in others:
            if twice := [name for name in other.batches if name in batches]:
                raise PrivotError(f"batch {twice[0]} is in two of the sums: give each once")
            batches |= other.batches
        return type(self)(self.rule, batches, sum((other.sums for other in others), self.sums))

    def learn(self, seed: int) -> "AggregatedModel":
        return fit(self, SumSettings(seed=seed))

    def save(self, path: str | Path) -> None:
        """Write a file; equal sums give equal files. If writing fails, an existing file stays."""
        fields: dict[str, Any] = {"where": self.rule.where, "rule": self.rule.to_json()}
        fields |= {"batches": dict(sorted(self.batches.items()))}
        fields |= {"sums": base64.b64encode(self.sums.astype("<i8").tobytes()).decode()}
        write_file(path, sealed(fields))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file of sums.

        Raises:
            PrivotError: if the file is damaged, or the sums do not keep the promise.
        """
        try:
            fields = unsealed(read_text(path, "sums"))
            rule = _RULES[fields["where"]].from_json(fields["rule"])
            batches = {str(name): int(number) for name, number in fields["batches"].items()}
            sums = np.frombuffer(base64.b64decode(fields["sums"]), "<i8").astype(np.int64)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise PrivotError(f"{path} holds no noisy sums ({error}): copy it again") from None
        return cls(rule, batches, sums)


def count(table: Any, schema: Schema, ledger: str | Path | None = None) -> SumRelease:
    """Release noisy sums of one curator's records, once, to be merged with those of other curators.

    Arguments:
        table: Private records, as `privot.central.fit` takes them; Parquet is read in batches, twice.
        schema: Schema of all curators, with a promise of `where = "central"`. It determines query and
            noise; `people` is the least number of records of each curator.
        ledger: File of the run's ledger, which is written before the sums are computed; in memory if
            None. In both cases the run is entered in the account of its records.

    Raises:
        PrivotError: if records cannot be used, are fewer than promised or take several rounds of sums,
            or if the ledger exists, because another release would spend another budget.

    Examples:
        >>> promise = {"epsilon": 1, "where": "central", "delta": 1e-6, "people": 1000}
        >>> schema = Schema.from_dict({"columns": {"old": {"kind": "boolean"}}, "promise": promise})
        >>> north, south = {"old": [True, False] * 500}, {"old": [True] * 1500}
        >>> merged = count(north, schema).merge(count(south, schema))
        >>> len(merged), str(merged.guarantee)
        (2500, 'ε = 1, δ = 1e-06, replace_one, per person')
    """
    if ledger is not None and Path(ledger).exists():
        raise PrivotError(f"{ledger} counted a release: use its sums, or spend more with another")
    rule, source = SumRule.calibrate(schema), raw_records(table, schema)
    records = source.num_rows or 0
    rule.guarantee(records)  # raises if there are too few
    plan = SumPlan.calibrate(rule.promise.epsilon, rule.promise.delta, [1.0], records, schema.unit)
    counter = Ledger(plan, None if ledger is None else Path(ledger))
    sums, _ = SumMechanism(rule.fitted.chunks(source), counter).release_integers(rule.query)
    return SumRelease(rule, {counter.id: records}, sums.ravel())


def open_sums(leader: str | Path, helper: str | Path) -> SumRelease:
    """Add up the sums that the two servers published.

    Arguments:
        leader: The leader's file.
        helper: The helper's file.

    Raises:
        PrivotError: if a file is damaged or of the other server, or the files differ in their encoders
            or reports.

    Examples:
        >>> import tempfile
        >>> from privot.aggregated import Server
        >>> promise = {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 100}
        >>> schema = Schema.from_dict({"columns": {"old": {"kind": "boolean"}}, "promise": promise})
        >>> encoder, folder = Encoder.calibrate(schema), Path(tempfile.mkdtemp())
        >>> servers = [Server.create(folder / role, encoder, role) for role in ROLES]
        >>> shares = zip(*encoder.encode_table({"old": [True] * 100}))
        >>> _ = [server.accept(*of_server) for server, of_server in zip(servers, shares)]
        >>> ids = servers[0].ids() & servers[1].ids()
        >>> len(open_sums(*(server.release(ids) for server in servers)))
        100
    """
    found = [_read(Path(path), role) for path, role in zip((leader, helper), ROLES, strict=True)]
    for name in ("encoder", "batch", "reports"):
        first, second = (fields[name] for fields in found)
        if first != second:
            raise PrivotError(
                f"{leader} and {helper} differ in {name}, and shares of one alone are noise: take sums "
                "of the same reports from both servers"
            )
    encoder = Encoder.from_json(found[0]["encoder"])
    if any(len(fields["sums"]) != encoder.sums_size for fields in found):  # bytes
        raise PrivotError(
            f"{leader} and {helper} must have {encoder.length:,} sums each: copy them again"
        )
    sums = encoder.opened(found[0]["sums"], found[1]["sums"])
    return SumRelease(encoder, {found[0]["batch"]: found[0]["reports"]}, sums)


def load_sums(paths: Sequence[Path]) -> SumRelease:
    """Open the sums of leader and helper or, if the first file is no server's, merge noisy sums."""
    if len(paths) == 2 and read_text(paths[0], "sums").startswith('{"encoder":'):
        return open_sums(*paths)
    first, *others = map(SumRelease.load, paths)
    return first.merge(*others)


def _read(path: Path, role: Role) -> dict[str, Any]:
    try:
        fields = unsealed(read_text(path, "sums"))
        fields["sums"] = base64.b64decode(fields["sums"])
        stated, *_ = (fields[name] for name in ("role", "encoder", "batch", "reports"))
    except (KeyError, TypeError, ValueError) as error:
        raise PrivotError(f"{path} holds no server's sums ({error}): copy it again") from None
    if stated != role:
        raise PrivotError(f"{path} is the {stated}'s: give the leader's file, then the helper's")
    return fields


@dataclass(frozen=True, eq=False, repr=False)
class AggregatedModel(LawModel):
    """Distribution of records, learned from noisy sums by two servers or by curators.

    Arguments:
        law: Distribution of encoded records.
        records: Public map between records and their codes.
        rule: Rule of the sums, from which the guarantee is computed.
        batches: Number of reports, or records, of each batch.
        made_with: Settings of the fit, plain values.
    """

    kind: ClassVar[ModelKind] = ModelKind("aggregated", 2, "privot fit")
    history = None

    rule: SumRule
    batches: tuple[int, ...]
    made_with: dict[str, Any]

    @property
    def guarantee(self) -> ApproximateDP | DistributedDP:
        """Guarantee of the batches from which the model was learned."""
        return self.rule.guarantee(min(self.batches))

    def fields(self) -> dict[str, Any]:
        sums = {"batches": self.batches, "where": self.rule.where, "rule": self.rule.to_json()}
        return sums | super().fields() | {"made_with": self.made_with}

    @classmethod
    def build(cls, stored: Stored) -> Self:
        found = stored.fields
        records, law = stored_law(found["records"], found["law"], stored.arrays)
        rule = _RULES[found["where"]].from_json(found["rule"])
        return cls(law, records, rule, tuple(map(int, found["batches"])), found["made_with"])


def fit(release: SumRelease, settings: SumSettings | None = None) -> AggregatedModel:
    """Learn a model from noisy sums.

    Arguments:
        release: Noisy sums.
        settings: Settings of the fit; those that are None are chosen from public numbers. For images,
            only the seed has an effect.

    Examples:
        >>> from privot import Schema
        >>> promise = {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 1000}
        >>> schema = Schema.from_dict({"columns": {"old": {"kind": "boolean"}}, "promise": promise})
        >>> encoder = Encoder.calibrate(schema)
        >>> of_nobody = SumRelease(encoder, {"none": 1000}, np.zeros(encoder.length, np.int64))
        >>> fit(of_nobody).sample(3, seed=0).column_names
        ['old']
    """
    settings = settings or SumSettings()
    rule = release.rule
    fitted = one_round_fit(rule.schema, rule.where, settings)
    query = fitted.query  # computed before the next line: devices know only the promise's people
    fitted.budget = replace(fitted.budget, records=len(release))
    law = fitted.law(noisy_sums(query, release.sums, release.stddev))
    made_with = asdict(settings) | {"estimator": law.kind}
    return AggregatedModel(law, fitted.records, rule, tuple(release.batches.values()), made_with)

"""The opened sums of a batch, and the models that are learned from them.

**Opening.** The leader's and the helper's published sums, added mod 2^64 and read as signed words, are the
counts with the noise of both: two independent Gaussians of standard deviation σ, together √2 σ. This is the
price of trusting nobody in particular: a curator's noise would be σ.

**Learning** is that of `privot.central`, by the same likelihood: sums with Gaussian noise of a known
standard deviation. If a server added less noise than it should, the model is sharper than assumed, and
the guarantee, which counts on one server's noise alone, is the same.

**Privacy review.** Everything here is a function of two published files (post-processing). The guarantee is
computed from σ and Δ of the encoder in these files, never merely read. Whoever writes both files can make
them say anything: take them from the servers.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.aggregated.shares import ROLES, Encoder, one_round_fit, read_text, unseal
from privot.central.fitting import Law, RecordMap, SumSettings, stored_law
from privot.central.sums import Integers, NoisySums, Query, Rounds, noisy_sums
from privot.core.errors import PrivotError
from privot.core.summary import Summarized
from privot.models import Model, ModelKind, Stored
from privot.privacy import DistributedDP
from privot.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class SumRelease(Summarized):
    """Sums of a batch's records with the noise of both servers.

    Arguments:
        encoder: The encoder of the reports.
        count: Number of reports.
        sums: Noised integer sums (L,).

    Raises:
        PrivotError: if the reports are fewer than the promise's people.
    """

    encoder: Encoder
    count: int
    sums: Integers

    def __post_init__(self) -> None:
        _ = self.guarantee  # refuses too few

    def __len__(self) -> int:
        return self.count

    @property
    def guarantee(self) -> DistributedDP:
        """Guarantee of the batch, if one of the servers is honest: by the noise of one."""
        return self.encoder.guarantee(self.count)

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise of both servers on integer sums: √2 σ."""
        return math.sqrt(2.0) * self.encoder.stddev

    def release(self, query: Query) -> NoisySums:
        """Return the sums as the answer to the encoder's query, in units of records."""
        return noisy_sums(query, self.sums, self.stddev)

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        return {"reports": f"{self.count:,}", "guarantee": self.guarantee}


def open_sums(leader: str | Path, helper: str | Path) -> SumRelease:
    """Add up the sums that the two servers published.

    Arguments:
        leader: The leader's file.
        helper: The helper's file.

    Raises:
        PrivotError: if a file is damaged or of the other server, or they differ in the encoder or in the
            reports that they sum.
    """
    read = []
    for path, role in zip((leader, helper), ROLES, strict=True):
        fields = unseal(path, read_text(path))
        try:
            words = np.frombuffer(base64.b64decode(fields["sums"], validate=True), "<u8")
            read.append((fields["encoder"], fields["batch"], int(fields["reports"]), words))
            stated = fields["role"]
        except (KeyError, TypeError, ValueError) as error:
            raise PrivotError(
                f"{path} holds no sums ({error}): give what a server published"
            ) from None
        if stated != role:
            raise PrivotError(f"{path} is of the {stated}: give the {role}'s file in this place")
    (encoder, batch, count, first), (other, other_batch, other_count, second) = read
    if encoder != other:
        raise PrivotError(
            f"{leader} and {helper} are sums of different encoders' reports: match them"
        )
    if (batch, count) != (other_batch, other_count):
        raise PrivotError(
            f"{leader} and {helper} sum different reports ({count:,} and {other_count:,}), and shares of "
            "one alone are noise: give both servers the same ids"
        )
    made_by = Encoder.from_json(encoder, leader)
    if not len(first) == len(second) == made_by.length:
        raise PrivotError(f"{leader} and {helper} do not have {made_by.length:,} sums each")
    return SumRelease(made_by, count, (first + second).view(np.int64))


@dataclass(frozen=True, eq=False, repr=False)
class AggregatedModel(Model):
    """A distribution of records, learned from sums that two servers opened.

    Arguments:
        law: The law that records are drawn from.
        records: The public map of the records.
        encoder: The encoder of the reports, of which the guarantee is computed.
        count: Number of reports.
        made_with: Settings of the fit, plain values.
    """

    kind: ClassVar[ModelKind] = ModelKind("aggregated", 1, "privot fit")
    history = None

    law: Law
    records: RecordMap
    encoder: Encoder
    count: int
    made_with: dict[str, Any]

    @property
    def guarantee(self) -> DistributedDP:
        """The guarantee of the batch that it was learned from."""
        return self.encoder.guarantee(self.count)

    @property
    def schema(self) -> Schema:
        """Schema of the records."""
        return self.records.schema

    def draw(
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Model`."""
        return self.law.pieces(self.records, num_rows, rng, where)

    def fields(self) -> dict[str, Any]:
        """See `Model`."""
        return {
            "reports": self.count,
            "encoder": self.encoder.to_json(),
            "records": self.records.to_dict(),
            "law": {"kind": self.law.kind} | self.law.fields(),
            "made_with": self.made_with,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Model`."""
        return self.law.arrays()

    @classmethod
    def build(cls, stored: Stored) -> Self:
        """See `Model`."""
        found = stored.fields
        records, law = stored_law(found["records"], found["law"], stored.arrays)
        encoder = Encoder.from_json(found["encoder"])
        return cls(law, records, encoder, int(found["reports"]), found["made_with"])


def fit(release: SumRelease, settings: SumSettings | None = None) -> AggregatedModel:
    """Learn a model from opened sums, by the curator's own estimator.

    Arguments:
        release: The opened sums.
        settings: Settings of the fit; chosen from public numbers where they are None.
    """
    settings = settings or SumSettings()
    encoder = release.encoder
    fitted = one_round_fit(encoder.schema, release.count, settings)
    law = fitted.estimate(cast(Rounds, release))
    made_with = asdict(settings) | {"estimator": law.kind}
    return AggregatedModel(law, fitted.records, encoder, release.count, made_with)

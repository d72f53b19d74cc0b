"""The opened sums of a batch, and the model that is learned from them.

**Opening.** The sums that leader and helper published, added mod 2^64 and read as signed words, are the
counts with the noise of both: two independent Gaussians of stddev σ, together √2 σ. A curator's noise
would be σ: √2 is the price of trusting neither server alone.

**Learning** is that of `privot.central`, with the same likelihood; of images, which a curator learns
from several rounds, by the fit of one round (`privot.central.mixture_fit`). If a server added less
noise than it should, the model is better than assumed, and the guarantee, by one server's noise, is the
same.

**Privacy review.** All is a function of two published files (post-processing). The guarantee is computed
from σ and Δ of the encoder, never merely read. Whoever writes both files can make them say anything:
take them from the servers.
"""

import base64
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from privot.aggregated.server import unsealed
from privot.aggregated.shares import ROLES, Encoder, Role, one_round_fit
from privot.central.fitting import LawModel, SumSettings, stored_law
from privot.central.sums import Integers, noisy_sums
from privot.core.errors import PrivotError
from privot.core.files import read_text
from privot.core.summary import Summarized
from privot.models import ModelKind, Stored
from privot.privacy import DistributedDP


@dataclass(frozen=True, eq=False, repr=False)
class SumRelease(Summarized):
    """Sums of a batch's records with the noise of both servers.

    Arguments:
        encoder: The encoder of the reports.
        count: Number of reports.
        sums: Noised integer sums (L,).

    Raises:
        PrivotError: if the reports are fewer than the promise's people.

    Examples:
        >>> import numpy as np
        >>> from privot.schema import Schema
        >>> schema = Schema.from_dict({
        ...     "columns": {name: {"kind": "boolean"} for name in ("old", "sick")},
        ...     "promise": {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 1000},
        ... })
        >>> release = SumRelease(Encoder.calibrate(schema), 1200, np.zeros(10, np.int64))
        >>> round(release.stddev / release.encoder.stddev, 3)
        1.414
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

    Examples:
        >>> import tempfile
        >>> from privot.aggregated import Server
        >>> from privot.schema import Schema
        >>> schema = Schema.from_dict({
        ...     "columns": {name: {"kind": "boolean"} for name in ("old", "sick")},
        ...     "promise": {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 100},
        ... })
        >>> encoder, folder = Encoder.calibrate(schema), Path(tempfile.mkdtemp())
        >>> servers = [Server.create(folder / role, encoder, role) for role in ROLES]
        >>> shares = zip(*encoder.encode_table({"old": [True] * 100, "sick": [False] * 100}))
        >>> _ = [server.accept(*mine) for server, mine in zip(servers, shares)]
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
    return SumRelease(encoder, found[0]["reports"], sums)


def _read(path: Path, role: Role) -> dict[str, Any]:
    try:
        fields = unsealed(read_text(path, "sums"))
        fields["sums"] = base64.b64decode(fields["sums"])
        stated = fields["role"]
    except (KeyError, TypeError, ValueError) as error:
        raise PrivotError(f"{path} holds no server's sums ({error}): copy it again") from None
    if stated != role:
        raise PrivotError(f"{path} is the {stated}'s: give the leader's file, then the helper's")
    return fields


@dataclass(frozen=True, eq=False, repr=False)
class AggregatedModel(LawModel):
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

    encoder: Encoder
    count: int
    made_with: dict[str, Any]

    @property
    def guarantee(self) -> DistributedDP:
        """The guarantee of the batch that it was learned from."""
        return self.encoder.guarantee(self.count)

    def fields(self) -> dict[str, Any]:
        """See `LawModel`."""
        own = {"reports": self.count, "encoder": self.encoder.to_json()}
        return own | super().fields() | {"made_with": self.made_with}

    @classmethod
    def build(cls, stored: Stored) -> Self:
        """See `Model`."""
        found = stored.fields
        records, law = stored_law(found["records"], found["law"], stored.arrays)
        encoder = Encoder.from_json(found["encoder"])
        return cls(law, records, encoder, int(found["reports"]), found["made_with"])


def fit(release: SumRelease, settings: SumSettings | None = None) -> AggregatedModel:
    """Learn a model from opened sums.

    Arguments:
        release: The opened sums.
        settings: Settings of the fit; chosen from public numbers where they are None. Of images, the
            seed alone.

    Examples:
        >>> import numpy as np
        >>> from privot import Schema
        >>> encoder = Encoder.calibrate(Schema.from_dict({
        ...     "columns": {name: {"kind": "boolean"} for name in ("old", "sick")},
        ...     "promise": {"epsilon": 1, "where": "aggregated", "delta": 1e-6, "people": 1000},
        ... }))
        >>> of_nobody = SumRelease(encoder, 1000, np.zeros(encoder.length, np.int64))
        >>> fit(of_nobody).sample(3, seed=0).column_names
        ['old', 'sick']
    """
    settings = settings or SumSettings()
    encoder = release.encoder
    fitted = one_round_fit(encoder.schema, settings)
    query = fitted.query  # by the promise's least number of people, all that devices know
    fitted.budget = replace(fitted.budget, records=release.count)  # the number, for the law
    law = fitted.law(noisy_sums(query, release.sums, release.stddev))
    made_with = asdict(settings) | {"estimator": law.kind}
    return AggregatedModel(law, fitted.records, encoder, release.count, made_with)

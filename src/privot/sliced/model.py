r"""Models that are learned through noisy slices: fitting one, drawing records, what it promises.

The mechanism owns the records; everything here sees releases only, so the guarantee of the plan is the
model's, however it is trained (post-processing), and all of its folder may be published: times, which
depend on raw records, are in checkpoints alone, which stay with the curator. The mean record is pooled
over all releases (`privot.sliced.loss`). When the budget is spent, `"factors"` reads classes
off the pooled mean in closed form (`privot.sliced.factors`); a `"network"` is trained at every release
(`privot.sliced.network`).

**Resuming.** The checkpoint holds the model, the pooled mean and the optimizer; the ledger is a file of
its own that is never behind (`privot.disk.ledger`). After a kill, releases that were counted but
whose effect was lost stay spent. Losses in the history are functions of releases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import torch
from torch import Tensor

from privot.errors import PrivotError
from privot.models import Checkpoint, History, Model, ModelKind, Stored
from privot.privacy import ApproximateDP
from privot.schema import Schema
from privot.sliced.factors import Factors, estimate_factors, require_visible
from privot.sliced.images import ImageRecords
from privot.sliced.loss import PooledMean
from privot.sliced.network import LabeledLaw, LabeledNetwork, train_network
from privot.sliced.records import Records, raw_table
from privot.sliced.releases.mechanism import SlicingMechanism
from privot.sliced.releases.plan import Counted, SlicePlan, open_ledger
from privot.sliced.settings import SlicedSettings
from privot.sliced.tables import TableRecords
from privot.training import Interrupted, Progress, deferred_interruption
from privot.training.parallel import threads_for

_PIECE = 16_384  # rows drawn at once
_LAWS: dict[str, type[LabeledLaw]] = {law.kind: law for law in (Factors, LabeledNetwork)}


def fit(
    table: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float = 1e-5,
    settings: SlicedSettings | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> SlicedModel:
    """Learn a model of private records through noisy slices, keeping (ε, δ).

    Arguments:
        table: Private records: a table (pandas, polars, pyarrow, dict) or the path of one.
        schema: What a record may be: columns of a table, or images and their label.
        epsilon: ε of the whole run.
        delta: δ of the whole run.
        settings: What is released, and what is made of it; by default for tens of thousands of records.
        checkpoint: File of the run's state; its ledger is written beside it, as `<name>.ledger`.
            Without it, the run counts in memory only and cannot be resumed. Either way it is entered
            in the account of its records, and the curator is warned if it is not the first.
        resume: Whether to go on with checkpoint and ledger.
        progress: Told after every step.

    Raises:
        PrivotError: for input or settings that cannot be used, a ledger of another plan, or a run to
            be resumed that is finished.
        Interrupted: on SIGINT or SIGTERM, after state and ledger were saved.
    """
    settings = settings or SlicedSettings()
    records = records_of(schema, **settings.features)
    images = None if settings.estimator == "network" else records.squared_images
    if settings.estimator == "factors" and images is None:
        raise PrivotError(
            "estimator 'factors' needs images of degree 2, for their second moments: use 'network'"
        )
    values, labels = records.encode(raw_table(table, schema))
    plan = settings.plan(epsilon, delta, len(values), records)
    if images is not None:
        require_visible(plan, images)
    path = None if checkpoint is None else Path(checkpoint)
    ledger = open_ledger(plan, path, resume)
    mechanism = SlicingMechanism(values, labels, records, ledger)
    state = Checkpoint(path, {"ledger": ledger.id}, resume)
    history: History | None = None
    try:
        with threads_for(0):
            if images is not None:
                pooled = pool_releases(mechanism, state, progress)
                law: LabeledLaw = estimate_factors(pooled, images, settings.dither)
            else:
                law, history = train_network(mechanism, records, settings, state, progress)
    finally:
        ledger.close()
    made_with = {"epsilon": epsilon, "delta": delta} | asdict(settings) | {"estimator": law.kind}
    return SlicedModel(law, records, ledger.plan, ledger.spent, made_with, history)


@dataclass(frozen=True, eq=False, repr=False)
class SlicedModel(Model):
    """A distribution of records, learned from releases of the slicing mechanism.

    Arguments:
        law: What records are drawn from.
        records: The public map of the records it was learned from.
        plan: What could be released.
        releases: How many releases were made.
        made_with: Settings of the fit, plain values.
        history: Loss over the steps; None if it was not trained by steps.
    """

    kind: ClassVar[ModelKind] = ModelKind("sliced", 3, "privot sliced fit")

    law: LabeledLaw
    records: Records
    plan: SlicePlan
    releases: int
    made_with: dict[str, Any]
    history: History | None = None

    @property
    def guarantee(self) -> ApproximateDP:
        """What was spent: the guarantee of all releases that were counted."""
        return self.plan.guarantee

    @property
    def schema(self) -> Schema:
        """What one record may be."""
        return self.records.schema

    def draw(
        self, num_rows: int, rng: torch.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Model`; `where` may name the label of images."""
        shares = self.law.shares * self.records.wanted(where)
        if not shares.sum():  # labels whose class was lost in the noise
            shares = self.records.wanted(where)
        return self._pieces(num_rows, rng, shares)

    def _pieces(self, num_rows: int, rng: torch.Generator, shares: Tensor) -> Iterator[pa.Table]:
        labels = torch.empty(0, dtype=torch.int64)
        if num_rows:
            labels = torch.multinomial(shares, num_rows, replacement=True, generator=rng)
        for part in labels.split(_PIECE):
            yield self.records.decode(self.law.values(part, rng), part, rng)

    def fields(self) -> dict[str, Any]:
        """See `Model`."""
        return {
            "releases": self.releases,
            "plan": self.plan.to_dict(),
            "records": self.records.to_dict(),
            "law": {"kind": self.law.kind} | self.law.fields(),
            "made_with": self.made_with,
        }

    def tensors(self) -> dict[str, Tensor]:
        """See `Model`."""
        return self.law.tensors()

    @classmethod
    def build(cls, stored: Stored) -> Self:
        """See `Model`."""
        fields = stored.fields
        records = records_of(Schema.from_dict(fields["records"].pop("schema")), **fields["records"])
        law = _LAWS[fields["law"].pop("kind")].build(records, fields["law"], stored.tensors)
        plan = SlicePlan.from_dict(fields["plan"])
        return cls(law, records, plan, fields["releases"], fields["made_with"], stored.history)


def records_of(schema: Schema, degree: int = 2, **of_images: Any) -> Records:
    """The records of a schema, by features of a degree: labeled images if it declares any."""
    if schema.images:
        return ImageRecords(schema, degree=degree, **of_images)
    return TableRecords(schema, degree=degree)


def pool_releases(
    mechanism: SlicingMechanism, checkpoint: Checkpoint, progress: Progress | None = None
) -> PooledMean:
    """The mean record, pooled over all that is left of the budget."""
    ledger = mechanism.ledger
    counted = Counted(pooled=(pooled := PooledMean(ledger.plan)))
    counted.restore(checkpoint, ledger)
    with deferred_interruption() as interruption:
        while ledger.left:
            pooled.add(mechanism.release())
            if progress is not None:
                progress(ledger.spent, ledger.plan.steps, pooled.stddev)
            if checkpoint.due or interruption.requested:
                counted.keep(checkpoint, ledger)
            if interruption.requested:
                raise Interrupted(f"stopped after release {ledger.spent} of {ledger.plan.steps}")
    counted.keep(checkpoint, ledger)
    return pooled

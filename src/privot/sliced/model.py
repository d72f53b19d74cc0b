"""A model learned through noisy slices: it samples records and states the guarantee that was spent.

All of its folder is a function of releases and of public settings: it may be published. Counts of
clipped records and times are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa
import torch
from torch import Tensor

from privot.models import History, Model, ModelKind, Stored
from privot.privacy import ApproximateDP
from privot.schema import Schema
from privot.sliced.factors import Factors
from privot.sliced.images import ImageRecords
from privot.sliced.network import LabeledLaw, LabeledNetwork
from privot.sliced.records import Records
from privot.sliced.releases.plan import SlicePlan
from privot.sliced.tables import TableRecords

_PIECE = 16_384  # rows drawn at once
_LAWS: dict[str, type[LabeledLaw]] = {law.kind: law for law in (Factors, LabeledNetwork)}


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
    """The records of a schema, by features of a degree: labeled images if it declares any.

    Raises:
        PrivotError: if columns cannot be sliced, or the settings do not fit them.
    """
    if schema.images:
        return ImageRecords(schema, degree=degree, **of_images)
    return TableRecords(schema, degree=degree)

"""Models that a curator learns through noisy releases: drawing records, and what they promise."""

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
from privot.sliced.images import ImageRecords
from privot.sliced.law import Law
from privot.sliced.mixtures.image_law import ImageMixture
from privot.sliced.mixtures.table_law import TableMixture
from privot.sliced.mixtures.vector_law import VectorMixture
from privot.sliced.network import LabeledNetwork
from privot.sliced.records import Records
from privot.sliced.releases.plan import SlicePlan
from privot.sliced.sums.plan import SumPlan
from privot.sliced.tables import TableRecords

_KINDS: tuple[type[Law], ...] = (LabeledNetwork, ImageMixture, TableMixture, VectorMixture)
_LAWS = {law.kind: law for law in _KINDS}
Plan = SlicePlan | SumPlan


@dataclass(frozen=True, eq=False, repr=False)
class SlicedModel(Model):
    """A distribution of records, learned from noisy slices or sums of private ones.

    Arguments:
        law: What records are drawn from.
        records: The public map of the records it was learned from.
        plan: What could be released.
        releases: How many releases were made.
        made_with: Settings of the fit, plain values.
        history: Loss over the steps; None if it was not trained by steps.
    """

    kind: ClassVar[ModelKind] = ModelKind("sliced", 4, "privot sliced fit")

    law: Law
    records: Records
    plan: Plan
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
        """See `Model`; of a table `where` may name any column, of images their label."""
        return self.law.pieces(self.records, num_rows, rng, where)

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
        kind = SumPlan if "ratios" in fields["plan"] else SlicePlan
        plan = kind.from_dict(fields["plan"])
        return cls(law, records, plan, fields["releases"], fields["made_with"], stored.history)


def records_of(schema: Schema, degree: int = 2, **of_images: Any) -> Records:
    """The records of a schema, by features of a degree: labeled images if it declares any.

    Examples:
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> records_of(schema).schema == schema
        True
    """
    if schema.images:
        return ImageRecords(schema, degree=degree, **of_images)
    return TableRecords(schema, degree=degree)

"""Models that a curator learns through noisy releases: drawing records, and what they promise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privot.errors import load_object
from privot.models import History, Model, ModelKind, Stored
from privot.privacy import ApproximateDP
from privot.schema import Schema
from privot.sliced.law import Law, SchemaRecords
from privot.sliced.mixtures.table_fit import CodedTable
from privot.sliced.mixtures.table_law import TableMixture
from privot.sliced.sums.plan import SumPlan

# Laws of tensors, imported when a model has one: tables by sums need no PyTorch.
_TENSOR_LAWS = {
    "network": "privot.sliced.network:LabeledNetwork",
    "mixture": "privot.sliced.mixtures.image_law:ImageMixture",
    "vectors": "privot.sliced.mixtures.vector_law:VectorMixture",
}


class Plan(Protocol):
    """What could be released: `SumPlan` or `SlicePlan`."""

    @property
    def guarantee(self) -> ApproximateDP:
        """Of all releases together."""

    @property
    def uses(self) -> int:
        """Releases that are declared."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""


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

    kind: ClassVar[ModelKind] = ModelKind("sliced", 5, "privot sliced fit")

    law: Law
    records: SchemaRecords
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
        self, num_rows: int, rng: np.random.Generator, where: Mapping[str, Any]
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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Model`."""
        return self.law.arrays()

    @classmethod
    def build(cls, stored: Stored) -> Self:
        """See `Model`."""
        fields = stored.fields
        kind, schema = fields["law"].pop("kind"), Schema.from_dict(fields["records"].pop("schema"))
        records: SchemaRecords
        law: type[Law]
        if kind == TableMixture.kind:
            records, law = CodedTable(schema), TableMixture
        else:
            purpose = f"a model of kind {kind!r}"
            make = load_object("privot.sliced.record_maps:records_of", purpose)
            records, law = (
                make(schema, **fields["records"]),
                load_object(_TENSOR_LAWS[kind], purpose),
            )
        plan: Plan
        if "ratios" in fields["plan"]:
            plan = SumPlan.from_dict(fields["plan"])
        else:
            kind_of_plan = load_object("privot.sliced.releases.plan:SlicePlan", "a model of slices")
            plan = kind_of_plan.from_dict(fields["plan"])
        built = law.build(records, fields["law"], stored.arrays)
        return cls(built, records, plan, fields["releases"], fields["made_with"], stored.history)

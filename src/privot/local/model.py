"""A model that was learned from a release."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa
import torch
from torch import Tensor

from privot.local.samplers import SAMPLERS, Sampler, read_condition
from privot.models import History, Model, ModelKind, Stored
from privot.privacy import ApproximateDP, PureDP
from privot.release import Randomizer
from privot.schema import Schema

_SAMPLE_ROWS = 65_536
_SAMPLE_NUMBERS = 2**22  # at once, of images


@dataclass(frozen=True, repr=False)
class LocalModel(Model):
    """A distribution of clean records, learned from a release.

    Arguments:
        sampler: What records are drawn from: a generator's network, or latent classes.
        randomizer: What was done to each record that it was learned from.
        made_with: Settings and facts of the fit, plain values.
        history: Loss and learning rate over the steps; None if it was not trained by steps.
    """

    kind: ClassVar[ModelKind] = ModelKind("local", 2, "privot fit")

    sampler: Sampler
    randomizer: Randomizer
    made_with: dict[str, Any]
    history: History | None = None

    @property
    def schema(self) -> Schema:
        """What one record may be."""
        return self.randomizer.schema

    @property
    def guarantee(self) -> PureDP | ApproximateDP:
        """The guarantee of the release: whatever is computed from a release keeps it."""
        return self.randomizer.guarantee

    def summary(self) -> dict[str, object]:
        """See `Summarized`."""
        return super().summary() | {"estimator": self.made_with["estimator"]}

    def draw(
        self, num_rows: int, rng: torch.Generator, where: Mapping[str, Any]
    ) -> Iterator[pa.Table]:
        """See `Model`."""
        condition = read_condition(self.schema, where)
        names, most = list(self.schema.table_columns), self._rows_at_once()
        for start in range(0, max(num_rows, 1), most):
            rows = min(most, num_rows - start)
            yield self.sampler.records(rows, rng, condition).select(names)

    def _rows_at_once(self) -> int:
        pixels = sum(column.domain.num_pixels for column in self.schema.images.values())
        return max(64, _SAMPLE_NUMBERS // pixels) if pixels else _SAMPLE_ROWS

    def fields(self) -> dict[str, Any]:
        """See `Learned`."""
        return {
            "sampler": {"kind": self.sampler.kind} | self.sampler.shape(),
            "made_with": self.made_with,
            "randomizer": json.loads(self.randomizer.to_json()),
        }

    def tensors(self) -> dict[str, Tensor]:
        """See `Learned`."""
        return self.sampler.tensors()

    @classmethod
    def build(cls, stored: Stored) -> Self:
        """See `Learned`."""
        shape = stored.fields["sampler"]
        randomizer = Randomizer.from_json(json.dumps(stored.fields["randomizer"]))
        sampler = SAMPLERS[shape["kind"]].build(randomizer, shape, stored.tensors)
        return cls(sampler, randomizer, stored.fields["made_with"], stored.history)

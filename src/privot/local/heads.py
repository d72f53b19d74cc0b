"""The head: what a generator's features mean, column by column.

A continuous column takes one feature a coordinate and outputs a point of its domain in unit
coordinates: through tanh where the domain is a box, as they are elsewhere (and projected when
sampled). A categorical column takes one feature a category and outputs log-probabilities: the
generator never has to decide for one category, so its likelihood stays differentiable.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from privot.schema import Box, Schema, from_unit
from privot.schema.columns import decode_categorical, decode_continuous

# Output of the head: unit coordinates (n, d) or log-probabilities (n, k), by column.
Outputs = dict[str, Tensor]


class Head:
    """Features to outputs, and outputs to records, for one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.widths = {
            name: len(schema.categorical[name].categories)
            if name in schema.categorical
            else schema.continuous[name].domain.dimension
            for name in schema.columns
        }

    @property
    def num_features(self) -> int:
        """Number of features that the generator has to supply."""
        return sum(self.widths.values())

    def __call__(self, features: Tensor) -> Outputs:
        """Outputs by column, of features (n, num_features)."""
        outputs = {}
        parts = torch.split(features, list(self.widths.values()), dim=1)
        for name, part in zip(self.widths, parts, strict=True):
            if name in self.schema.categorical:
                outputs[name] = torch.log_softmax(part, dim=1)
            elif isinstance(self.schema.continuous[name].domain, Box):
                outputs[name] = torch.tanh(part)
            else:
                outputs[name] = part
        return outputs

    def records(self, outputs: Outputs, rng: torch.Generator) -> pa.Table:
        """One record for each row of the outputs; categories are drawn, points are projected."""
        columns: dict[str, pa.Array] = {}
        for name, output in outputs.items():
            if name in self.schema.categorical:
                drawn = torch.multinomial(output.exp().cpu(), 1, replacement=True, generator=rng)
                codes = drawn[:, 0].numpy().astype(np.int64)
                columns |= decode_categorical(self.schema.categorical[name], name, codes)
            else:
                column = self.schema.continuous[name]
                points = from_unit(column.domain, output.double().cpu().numpy())
                columns |= decode_continuous(column, name, points)
        return pa.table(columns)

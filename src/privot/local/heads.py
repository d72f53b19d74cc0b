"""The head: what a generator's features mean, column by column.

A column that is reported with additive noise takes one feature a coordinate and outputs a point of its
domain in unit coordinates: through tanh where the domain is a box, as they are elsewhere (and projected
when sampled). Any other column takes one feature a code of its alphabet and outputs log-probabilities:
the generator never has to decide for one code, so its likelihood stays differentiable.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from privot.mechanisms.additive_noise import AdditiveNoise
from privot.release import Randomizer
from privot.schema import Box, from_unit
from privot.schema.values import decode_codes, decode_points

# Output of the head: unit coordinates (n, d) or log-probabilities (n, K), by column.
Outputs = Mapping[str, Tensor]


class Head:
    """Features to outputs, and outputs to records, for one randomizer's columns."""

    def __init__(self, randomizer: Randomizer) -> None:
        self.schema = randomizer.schema
        self.coded = {
            name: column
            for name, column in self.schema.coded.items()
            if not isinstance(randomizer.mechanisms.get(name), AdditiveNoise)
        }
        self.widths = {
            name: self.coded[name].alphabet.size
            if name in self.coded
            else self.schema.point_column(name).domain.dimension
            for name in self.schema.columns
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
            if name in self.coded:
                outputs[name] = torch.log_softmax(part, dim=1)
            elif isinstance(self.schema.point_column(name).domain, Box):
                outputs[name] = torch.tanh(part)
            else:
                outputs[name] = part
        return outputs

    def records(self, outputs: Outputs, rng: torch.Generator) -> pa.Table:
        """One record for each row of the outputs; codes are drawn, points are projected."""
        columns: dict[str, pa.Array] = {}
        within = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        for name, output in outputs.items():
            if name in self.coded:
                drawn = torch.multinomial(output.exp().cpu(), 1, replacement=True, generator=rng)
                codes = drawn[:, 0].numpy().astype(np.int64)
                columns |= decode_codes(self.coded[name], name, codes, within)
            else:
                column = self.schema.point_column(name)
                points = from_unit(column.domain, output.double().cpu().numpy())
                columns |= decode_points(column, name, points)
        return pa.table(columns)

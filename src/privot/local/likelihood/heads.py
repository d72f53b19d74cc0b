"""The head: what a generator's features mean, column by column.

A column that is reported with additive noise takes one feature a coordinate and outputs a point of its
domain in unit coordinates: through tanh where the domain is a box, as they are elsewhere (and projected
when sampled). One that may be missing takes one feature more, the logit of being so. An image takes one
feature a pixel and outputs pixels in unit coordinates (`privot.local.likelihood.images`). Any other
column takes one feature a code of its alphabet and outputs log-probabilities: the generator never has
to decide for one code, so its likelihood stays differentiable.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from privot.local.likelihood.images import CosineMap
from privot.mechanisms import NullableNoise
from privot.mechanisms.additive.additive_noise import AdditiveNoise
from privot.release import Randomizer
from privot.schema import Box, from_unit

# Output of the head, by column: unit coordinates (n, d), with a logit (n, d+1) where they may be
# missing, unit pixels (n, N), or log-probabilities (n, K).
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
        self.nullable = {
            name for name, m in randomizer.mechanisms.items() if isinstance(m, NullableNoise)
        }
        self.images = self.schema.images
        self._maps = {
            name: CosineMap(column.domain)
            for name, column in self.images.items()
            if column.domain.kept is not None
        }
        self.widths = {name: self._width(name) for name in self.schema.columns}

    def _width(self, name: str) -> int:
        if name in self.coded:
            return self.coded[name].alphabet.size
        if name in self.images:
            return self.images[name].domain.num_pixels
        return self.schema.point_column(name).domain.dimension + (name in self.nullable)

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
                continue
            if name in self.images:
                smooth = self._maps[name].smooth(part) if name in self._maps else part
                outputs[name] = torch.tanh(smooth)
                continue
            domain = self.schema.point_column(name).domain
            point, logit = part[:, : domain.dimension], part[:, domain.dimension :]
            if isinstance(domain, Box):
                point = torch.tanh(point)
            outputs[name] = torch.cat([point, logit], dim=1)
        return outputs

    def records(self, outputs: Outputs, rng: torch.Generator) -> pa.Table:
        """One record for each row of the outputs; codes are drawn, points are projected."""
        columns: dict[str, pa.Array] = {}
        within = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        for name, output in outputs.items():
            if name in self.coded:
                drawn = torch.multinomial(output.exp().cpu(), 1, replacement=True, generator=rng)
                codes = drawn[:, 0].numpy().astype(np.int64)
                columns |= self.coded[name].decode_codes(name, codes, within)
            elif name in self.images:
                columns |= self.images[name].decode_pixels(name, output.cpu().numpy())
            else:
                column = self.schema.point_column(name)
                dimension = column.domain.dimension
                points = from_unit(column.domain, output[:, :dimension].double().cpu().numpy())
                if name in self.nullable:
                    coins = torch.rand(len(output), generator=rng)
                    missing = coins < torch.sigmoid(output[:, dimension].cpu())
                    points[missing.numpy()] = np.nan
                columns |= column.decode_points(name, points)
        return pa.table(columns)

r"""The head: what a generator's features mean, column by column.

A column that is reported with additive noise takes one feature a coordinate, and is a point of its
domain: through tanh where the domain is a box, as they are elsewhere (and projected when sampled). Any
other column takes one feature a code of its alphabet, or an atom of its codings where a joint report
asks it in several, and outputs log-probabilities: the generator never has to decide for one code, so
its likelihood stays differentiable.

An image takes one feature a pixel, the tanh of which it is. Where only some cosine coefficients T x were
noised (`privot.schema.domains.image`), frequencies that the mask left out are in no report, and nothing
could teach a network of free pixels to leave them alone: features are made smooth first, $p = \tanh(T^⊤
T\, a)$. The tanh keeps pixels within their bounds and brings back such high frequencies as sharp edges
need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from privot.release import Randomizer
from privot.schema import ArrayColumn, Box, CodedColumn, ImageDomain, PointColumn, from_unit

# Output of the head, by column, as its part says.
Outputs = Mapping[str, Tensor]


class Part(Protocol):
    """What the features of one column mean."""

    @property
    def width(self) -> int:
        """Number of features."""

    def __call__(self, features: Tensor) -> Tensor:
        """The output of features (n, width)."""

    def records(
        self, output: Tensor, rng: torch.Generator, within: np.random.Generator
    ) -> dict[str, pa.Array]:
        """Table columns of one value for each row of an output; `within` draws within bins."""


@dataclass(frozen=True)
class Codes:
    """Log-probabilities (n, K) of a column's codes; of its atoms, if it is asked in all its codings."""

    name: str
    column: CodedColumn
    jointly: bool

    @property
    def width(self) -> int:
        """See `Part`."""
        return (self.column.atoms[0] if self.jointly else self.column.alphabet).size

    def __call__(self, features: Tensor) -> Tensor:
        """See `Part`."""
        return torch.log_softmax(features, dim=1)

    def records(
        self, output: Tensor, rng: torch.Generator, within: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `Part`."""
        drawn = torch.multinomial(output.exp().cpu(), 1, replacement=True, generator=rng)
        decode = self.column.decode_atoms if self.jointly else self.column.decode_codes
        return decode(self.name, drawn[:, 0].numpy().astype(np.int64), within)


@dataclass(frozen=True)
class Points:
    """Unit coordinates (n, d); with the logit of being missing (n, d+1), if `flagged`."""

    name: str
    column: PointColumn
    flagged: bool

    @property
    def width(self) -> int:
        """See `Part`."""
        return self.column.domain.dimension + self.flagged

    def __call__(self, features: Tensor) -> Tensor:
        """See `Part`."""
        dimension = self.column.domain.dimension
        point, logit = features[:, :dimension], features[:, dimension:]
        # Of other domains, points outside are left to projection.
        point = torch.tanh(point) if isinstance(self.column.domain, Box) else point
        return torch.cat([point, logit], dim=1)

    def records(
        self, output: Tensor, rng: torch.Generator, within: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `Part`."""
        domain = self.column.domain
        points = from_unit(domain, output[:, : domain.dimension].double().cpu().numpy())
        if self.flagged:
            coins = torch.rand(len(output), generator=rng)
            points[(coins < torch.sigmoid(output[:, -1].cpu())).numpy()] = np.nan
        return self.column.decode_points(self.name, points)


class CosineMap:
    """The map T of a domain with a mask, on tensors.

    Arguments:
        domain: Whose shape and mask are meant.

    Examples:
        >>> smooth = CosineMap(ImageDomain((8, 8), kept=(1, 1))).smooth(torch.arange(64.0)[None])
        >>> [round(float(pixel), 3) for pixel in (smooth.min(), smooth.max())]
        [31.5, 31.5]
    """

    def __init__(self, domain: ImageDomain) -> None:
        assert domain.kept is not None
        self.shape = domain.shape
        rows = (torch.tensor(part, dtype=torch.float32) for part in domain.cosines)
        self.along, self.across = rows

    def __call__(self, pixels: Tensor) -> Tensor:
        """Coefficients (n, d) of pixels (n, N)."""
        return self._coefficients(pixels).flatten(1)

    def smooth(self, pixels: Tensor) -> Tensor:
        """The nearest images (n, N) that have the kept frequencies only."""
        cube = self._coefficients(pixels)
        along, across = (part.to(pixels) for part in (self.along, self.across))
        return torch.einsum("mh,nmkc,kw->nhwc", along, cube, across).flatten(1)

    def _coefficients(self, pixels: Tensor) -> Tensor:
        cube = pixels.reshape(len(pixels), *self.shape[:2], -1)
        along, across = (part.to(pixels) for part in (self.along, self.across))
        return torch.einsum("mh,nhwc,kw->nmkc", along, cube, across)


@dataclass(frozen=True)
class Pixels:
    """Pixels (n, N) in unit coordinates, made smooth first where only low frequencies were noised."""

    name: str
    column: ArrayColumn

    @cached_property
    def _map(self) -> CosineMap | None:
        return None if self.column.domain.kept is None else CosineMap(self.column.domain)

    @property
    def width(self) -> int:
        """See `Part`."""
        return self.column.domain.num_pixels

    def __call__(self, features: Tensor) -> Tensor:
        """See `Part`."""
        return torch.tanh(features if self._map is None else self._map.smooth(features))

    def records(
        self, output: Tensor, rng: torch.Generator, within: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `Part`."""
        return self.column.decode_pixels(self.name, output.cpu().numpy())


class Head:
    """Features to outputs, and outputs to records, for one randomizer's columns."""

    def __init__(self, randomizer: Randomizer) -> None:
        self.schema = randomizer.schema
        forms = {
            name: mechanism.form(self.schema.columns[name])
            for name, mechanism in randomizer.mechanisms.items()
        }
        self.images = self.schema.images
        self.coded = {
            name: column
            for name, column in self.schema.coded.items()
            if name not in forms or forms[name].learns_codes
        }
        self._joint = randomizer.joint.asked.columns if randomizer.joint else []
        flagged = {name for name, form in forms.items() if form.flagged}
        self.parts = {name: self._part(name, name in flagged) for name in self.schema.columns}
        self.widths = {name: part.width for name, part in self.parts.items()}

    def _part(self, name: str, flagged: bool) -> Part:
        if name in self.coded:
            return Codes(name, self.coded[name], name in self._joint)
        if name in self.images:
            return Pixels(name, self.images[name])
        return Points(name, self.schema.point_column(name), flagged)

    @property
    def num_features(self) -> int:
        """Number of features that the generator has to supply."""
        return sum(self.widths.values())

    def __call__(self, features: Tensor) -> Outputs:
        """Outputs by column, of features (n, num_features)."""
        pieces = torch.split(features, list(self.widths.values()), dim=1)
        return {
            name: part(piece)
            for (name, part), piece in zip(self.parts.items(), pieces, strict=True)
        }

    def records(self, outputs: Outputs, rng: torch.Generator) -> pa.Table:
        """One record for each row of the outputs; codes are drawn, points are projected."""
        columns: dict[str, pa.Array] = {}
        within = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        for name, output in outputs.items():
            columns |= self.parts[name].records(output, rng, within)
        return pa.table(columns)

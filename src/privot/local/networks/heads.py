r"""Heads: maps from a generator's features to outputs, and from outputs to records, column by column.

| column | features | output |
|---|---|---|
| image | one per pixel | pixels |
| point with additive noise | one per coordinate, one if it may be missing | point, logit of missing |
| any other | one per code, or per atom in joint reports | log-probabilities |

Points are bounded by tanh if the domain is a box; otherwise they are unbounded, and samples are
projected to the domain. Log-probabilities make the likelihood of codes differentiable.

Pixels are the tanh of their features. With a low-pass mask, only the cosine coefficients T x of its
frequencies are reported (`privot.schema.images`), so no loss constrains other frequencies. Then the
features a are smoothed first, $p = \tanh(T^⊤ T\, a)$; the tanh bounds the pixels and restores some high
frequencies at sharp edges.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from privot.randomizer import Randomizer
from privot.schema import ArrayColumn, Box, ImageDomain
from privot.schema.columns.column import CodedColumn, PointColumn
from privot.schema.domains import from_unit

Outputs = Mapping[str, Tensor]  # outputs of the head, (n, width of the output) by column
Rng = torch.Generator
Arrays = dict[str, pa.Array]  # columns of a table


class ColumnHead(Protocol):
    """Map from the features of one column to its output, and from outputs to records."""

    @property
    def width(self) -> int:
        """Number of features."""

    def __call__(self, features: Tensor) -> Tensor:
        """Compute the output of features (n, width)."""

    def records(self, output: Tensor, rng: Rng, numpy_rng: np.random.Generator) -> Arrays:
        """Draw one value for each row of the output, as table columns; `numpy_rng` draws within bins."""


@dataclass(frozen=True)
class _CodeHead:
    """Head whose outputs are log-probabilities (n, K) of codes, or of atoms in a joint report."""

    name: str
    column: CodedColumn
    jointly: bool

    @property
    def width(self) -> int:
        return (self.column.atoms[0] if self.jointly else self.column.alphabet).size

    def __call__(self, features: Tensor) -> Tensor:
        return torch.log_softmax(features, dim=1)

    def records(self, output: Tensor, rng: Rng, numpy_rng: np.random.Generator) -> Arrays:
        drawn = torch.multinomial(output.exp().cpu(), 1, replacement=True, generator=rng)
        decode = self.column.decode_atoms if self.jointly else self.column.decode_codes
        return decode(self.name, drawn[:, 0].numpy().astype(np.int64), numpy_rng)


@dataclass(frozen=True)
class _PointHead:
    """Head whose outputs are unit coordinates (n, d) and, if `flagged`, the logit of being missing."""

    name: str
    column: PointColumn
    flagged: bool

    @property
    def width(self) -> int:
        return self.column.domain.dimension + self.flagged

    def __call__(self, features: Tensor) -> Tensor:
        dimension = self.column.domain.dimension
        point, logit = features[:, :dimension], features[:, dimension:]
        # Points outside of other domains are projected when they are sampled.
        point = torch.tanh(point) if isinstance(self.column.domain, Box) else point
        return torch.cat([point, logit], dim=1)

    def records(self, output: Tensor, rng: Rng, numpy_rng: np.random.Generator) -> Arrays:
        domain = self.column.domain
        points = from_unit(domain, output[:, : domain.dimension].double().cpu().numpy())
        if self.flagged:
            uniforms = torch.rand(len(output), generator=rng)
            points[(uniforms < torch.sigmoid(output[:, -1].cpu())).numpy()] = np.nan
        return self.column.decode_points(self.name, points)


class CosineMap:
    """Cosine transform T of an image domain with a low-pass mask, from N pixels to d coefficients.

    Examples:
        >>> smooth = CosineMap(ImageDomain((8, 8), low_pass=(1, 1))).smooth(torch.arange(64.0)[None])
        >>> [round(float(pixel), 3) for pixel in (smooth.min(), smooth.max())]
        [31.5, 31.5]
    """

    def __init__(self, domain: ImageDomain) -> None:
        self.shape = domain.shape
        self.along, self.across = (torch.as_tensor(part).float() for part in domain.cosines)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Compute coefficients (n, d) of pixels (n, N)."""
        return self._coefficients(pixels).flatten(1)

    def smooth(self, pixels: Tensor) -> Tensor:
        """Project images p (n, N) to the frequencies of the mask, Tᵀ T p (n, N)."""
        cube = self._coefficients(pixels)
        along, across = (part.to(pixels) for part in (self.along, self.across))
        return torch.einsum("mh,nmkc,kw->nhwc", along, cube, across).flatten(1)

    def _coefficients(self, pixels: Tensor) -> Tensor:
        """Compute coefficients (n, rows, columns, color channels) of pixels (n, N)."""
        cube = pixels.reshape(len(pixels), *self.shape[:2], -1)
        along, across = (part.to(pixels) for part in (self.along, self.across))
        return torch.einsum("mh,nhwc,kw->nmkc", along, cube, across)


@dataclass(frozen=True)
class _ImageHead:
    """Head whose outputs are pixels (n, N) in unit coordinates."""

    name: str
    column: ArrayColumn

    @cached_property
    def _map(self) -> CosineMap | None:
        return None if self.column.domain.low_pass is None else CosineMap(self.column.domain)

    @property
    def width(self) -> int:
        return self.column.domain.num_pixels

    def __call__(self, features: Tensor) -> Tensor:
        return torch.tanh(features if self._map is None else self._map.smooth(features))

    def records(self, output: Tensor, rng: Rng, numpy_rng: np.random.Generator) -> Arrays:
        return self.column.decode_pixels(self.name, output.cpu().numpy())


class Head:
    """Map from features to outputs, and from outputs to records, for all columns of a randomizer.

    Attributes:
        columns: Head of each column, in the schema's order.
        widths: Number of features of each column.
        coded: Columns whose outputs are log-probabilities of codes or atoms.
        images: Columns of images.
    """

    def __init__(self, randomizer: Randomizer) -> None:
        schema = randomizer.schema
        forms = {
            name: mechanism.form(schema.columns[name])
            for name, mechanism in randomizer.mechanisms.items()
        }
        joint = randomizer.joint.design.columns if randomizer.joint else []
        self.images = schema.images
        self.coded = {
            name: column
            for name, column in schema.coded.items()
            if name not in forms or forms[name].learns_codes
        }
        self.columns: dict[str, ColumnHead] = {}
        for name in schema.columns:
            if name in self.coded:
                self.columns[name] = _CodeHead(name, self.coded[name], name in joint)
            elif name in self.images:
                self.columns[name] = _ImageHead(name, self.images[name])
            else:
                flagged = name in forms and forms[name].flagged
                self.columns[name] = _PointHead(name, schema.point_column(name), flagged)
        self.widths = {name: column.width for name, column in self.columns.items()}

    @property
    def num_features(self) -> int:
        """Number of features of the generator."""
        return sum(self.widths.values())

    def __call__(self, features: Tensor) -> Outputs:
        """Compute outputs by column from features (n, num_features)."""
        pieces = torch.split(features, list(self.widths.values()), dim=1)
        return {
            name: column(piece)
            for (name, column), piece in zip(self.columns.items(), pieces, strict=True)
        }

    def records(self, outputs: Outputs, rng: torch.Generator) -> pa.Table:
        """Draw one record for each row of the outputs."""
        columns: dict[str, pa.Array] = {}
        numpy_rng = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        for name, output in outputs.items():
            columns |= self.columns[name].records(output, rng, numpy_rng)
        return pa.table(columns)

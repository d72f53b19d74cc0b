r"""Heads, from a generator's features to outputs, and channels, the cost −log f(report | output).

**The head** maps features to outputs, column by column. A column that is reported with additive noise
has one feature per coordinate; its output is a point of its domain, bounded by tanh if the domain is a
box and unbounded otherwise (samples are projected to the domain). Any other column has one feature per
code of its alphabet, or per atom if a joint report uses several codings, and its output is a vector of
log-probabilities, so the likelihood is differentiable.

An image has one feature per pixel, and its output is their tanh. If only the cosine coefficients T x of
a mask were noised (`privot.schema.images`), reports do not depend on other frequencies, and no loss
constrains them. So features are smoothed first, $p = \tanh(T^⊤ T\, a)$; the tanh bounds the pixels and
restores some high frequencies at sharp edges.

**A channel** is a mechanism's form (`privot.mechanisms.forms`) on tensors. For a nullable vector the
output is a point v and, last in a row, the logit of the probability $p_m$ that the record is missing. A
report is a noisy point y and a flag. If the record is missing, the noise was added to a public stand-in
$x_0$ (`mechanisms.nullable_noise`), so the cost is that of a mixture of two cases,

$$ −\log \big[ p_m f(\text{flag} | \text{missing}) f(y | x_0)
   + (1−p_m) f(\text{flag} | \text{present}) f(y | v) \big] . $$

The output for an image is its pixels p. If cosine coefficients were noised, the cost is that of T p.

Simulated reports are drawn from a seeded generator and give no privacy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from privot.core.errors import PrivotError
from privot.mechanisms import Mechanism
from privot.mechanisms.forms import (
    FlaggedForm,
    Form,
    NoiseForm,
    SupportForm,
    TableForm,
    codes_of_bits,
)
from privot.randomizer import Randomizer, Release
from privot.schema import ArrayColumn, Box, ImageDomain, Schema
from privot.schema.columns.column import CodedColumn, PointColumn
from privot.schema.domains import from_unit
from privot.transport import manhattan, squared_euclidean

# Outputs of the head by column, (n, d) each.
Outputs = Mapping[str, Tensor]


class Part(Protocol):
    """Map from the features of one column to its output, and from outputs to records."""

    @property
    def width(self) -> int:
        """Number of features."""

    def __call__(self, features: Tensor) -> Tensor:
        """Compute the output of features (n, width)."""

    def records(
        self, output: Tensor, rng: torch.Generator, within: np.random.Generator
    ) -> dict[str, pa.Array]:
        """Draw table columns with one value for each row of an output; `within` draws within bins."""


@dataclass(frozen=True)
class _Codes:
    """Part whose outputs are log-probabilities (n, K) of codes, or of atoms in a joint report."""

    name: str
    column: CodedColumn
    jointly: bool

    @property
    def width(self) -> int:
        return (self.column.atoms[0] if self.jointly else self.column.alphabet).size

    def __call__(self, features: Tensor) -> Tensor:
        return torch.log_softmax(features, dim=1)

    def records(
        self, output: Tensor, rng: torch.Generator, within: np.random.Generator
    ) -> dict[str, pa.Array]:
        drawn = torch.multinomial(output.exp().cpu(), 1, replacement=True, generator=rng)
        decode = self.column.decode_atoms if self.jointly else self.column.decode_codes
        return decode(self.name, drawn[:, 0].numpy().astype(np.int64), within)


@dataclass(frozen=True)
class _Points:
    """Part whose outputs are unit coordinates (n, d) and, if `flagged`, the logit of being missing."""

    name: str
    column: PointColumn
    flagged: bool

    @property
    def width(self) -> int:
        return self.column.domain.dimension + self.flagged

    def __call__(self, features: Tensor) -> Tensor:
        dimension = self.column.domain.dimension
        point, logit = features[:, :dimension], features[:, dimension:]
        # Other domains project points outside when they are sampled.
        point = torch.tanh(point) if isinstance(self.column.domain, Box) else point
        return torch.cat([point, logit], dim=1)

    def records(
        self, output: Tensor, rng: torch.Generator, within: np.random.Generator
    ) -> dict[str, pa.Array]:
        domain = self.column.domain
        points = from_unit(domain, output[:, : domain.dimension].double().cpu().numpy())
        if self.flagged:
            coins = torch.rand(len(output), generator=rng)
            points[(coins < torch.sigmoid(output[:, -1].cpu())).numpy()] = np.nan
        return self.column.decode_points(self.name, points)


class CosineMap:
    """Cosine transform T of an image domain with a low-pass mask, on tensors.

    Arguments:
        domain: Domain with shape and mask.

    Examples:
        >>> smooth = CosineMap(ImageDomain((8, 8), low_pass=(1, 1))).smooth(torch.arange(64.0)[None])
        >>> [round(float(pixel), 3) for pixel in (smooth.min(), smooth.max())]
        [31.5, 31.5]
    """

    def __init__(self, domain: ImageDomain) -> None:
        self.shape = domain.shape
        self.along, self.across = (torch.tensor(x, dtype=torch.float32) for x in domain.cosines)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Compute coefficients (n, d) of pixels (n, N)."""
        return self._coefficients(pixels).flatten(1)

    def smooth(self, pixels: Tensor) -> Tensor:
        """Compute Tᵀ T p, the projections (n, N) of images to the frequencies of the mask."""
        cube = self._coefficients(pixels)
        along, across = (part.to(pixels) for part in (self.along, self.across))
        return torch.einsum("mh,nmkc,kw->nhwc", along, cube, across).flatten(1)

    def _coefficients(self, pixels: Tensor) -> Tensor:
        cube = pixels.reshape(len(pixels), *self.shape[:2], -1)
        along, across = (part.to(pixels) for part in (self.along, self.across))
        return torch.einsum("mh,nhwc,kw->nmkc", along, cube, across)


@dataclass(frozen=True)
class _Pixels:
    """Part whose outputs are pixels (n, N) in unit coordinates; with a mask, features are smoothed."""

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

    def records(
        self, output: Tensor, rng: torch.Generator, within: np.random.Generator
    ) -> dict[str, pa.Array]:
        return self.column.decode_pixels(self.name, output.cpu().numpy())


class Head:
    """Map from features to outputs, and from outputs to records, for one randomizer's columns."""

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
        self._joint = randomizer.joint.design.columns if randomizer.joint else []
        flagged = {name for name, form in forms.items() if form.flagged}
        self.parts = {name: self._part(name, name in flagged) for name in self.schema.columns}
        self.widths = {name: part.width for name, part in self.parts.items()}

    def _part(self, name: str, flagged: bool) -> Part:
        if name in self.coded:
            return _Codes(name, self.coded[name], name in self._joint)
        if name in self.images:
            return _Pixels(name, self.images[name])
        return _Points(name, self.schema.point_column(name), flagged)

    @property
    def num_features(self) -> int:
        """Number of features of the generator."""
        return sum(self.widths.values())

    def __call__(self, features: Tensor) -> Outputs:
        """Compute outputs by column from features (n, num_features)."""
        pieces = torch.split(features, list(self.widths.values()), dim=1)
        return {
            name: part(piece)
            for (name, part), piece in zip(self.parts.items(), pieces, strict=True)
        }

    def records(self, outputs: Outputs, rng: torch.Generator) -> pa.Table:
        """Draw one record for each row of the outputs, as table columns."""
        columns: dict[str, pa.Array] = {}
        within = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        for name, output in outputs.items():
            columns |= self.parts[name].records(output, rng, within)
        return pa.table(columns)


class Channel(ABC):
    """Likelihood and simulation of one column's reports."""

    @abstractmethod
    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        """Read all reports of the column as a tensor, and the mask (n,) of rows that have one."""

    @abstractmethod
    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """Compute −log f (n, m) of m reports given n outputs, up to a constant of each report."""

    @abstractmethod
    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """Simulate one report for each output, as `read` returns it."""


class PointChannel(Channel):
    """Channel whose reports are noisy unit coordinates."""

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        """Read points as single-precision numbers."""
        values, reported = release.reports(name)
        return torch.as_tensor(values, dtype=torch.float32), torch.as_tensor(reported)


class _LaplaceChannel(PointChannel):
    """Channel of Laplace noise, with cost ‖x − y‖₁/b."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        return manhattan(output / self.scale, reports / self.scale)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        uniform = torch.rand(output.shape, generator=rng).to(output.device) - 0.5
        # Clamped to the largest float32 below ½, since ½ would give infinite noise.
        magnitude = -torch.log1p(-2 * uniform.abs().clamp_max(0.5 - 2.0**-25))
        return output + self.scale * uniform.sign() * magnitude


class _GaussianChannel(PointChannel):
    """Channel of Gaussian noise, with cost ‖x − y‖₂²/(2σ²)."""

    def __init__(self, stddev: float) -> None:
        self.stddev = stddev
        # The factor ½ of the cost is part of the scale, which saves an operation on the matrix.
        self.scale = math.sqrt(2) * stddev

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        return squared_euclidean(output / self.scale, reports / self.scale)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        return output + self.stddev * torch.randn(output.shape, generator=rng).to(output.device)


class _PlanarLaplaceChannel(PointChannel):
    """Channel of planar Laplace noise, with cost ‖x − y‖₂/b."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        # The norm is smoothed below 1e-4 b, because its gradient at 0 is not defined.
        gap = squared_euclidean(output / self.scale, reports / self.scale)
        return torch.sqrt(gap + 1e-8)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        # The radius has density r e^{−r/b}/b², that of a sum of two exponential variables.
        uniform = torch.rand(len(output), 3, generator=rng).to(output.device)
        radius = -torch.log1p(-uniform[:, :2]).sum(dim=1, keepdim=True)
        angle = 2 * torch.pi * uniform[:, 2:]
        return output + self.scale * radius * torch.cat([angle.cos(), angle.sin()], dim=1)


NOISES: Mapping[str, Callable[[float], PointChannel]] = {
    "manhattan": _LaplaceChannel,
    "euclidean": _PlanarLaplaceChannel,
    "squared_euclidean": _GaussianChannel,
}


class _NullableChannel(PointChannel):
    """Channel of a nullable vector; rows of outputs end with a logit, rows of reports with a flag."""

    def __init__(self, value: PointChannel, form: FlaggedForm) -> None:
        self.value = value
        self.stand_in = torch.tensor(form.stand_in)[None]
        right, self.wrong = form.probabilities
        # Row 0: log-probabilities of the flags 0 and 1 if the record is missing; row 1: if present.
        log_right, log_wrong = math.log(right), math.log(self.wrong)
        self.log_flags = torch.tensor([[log_wrong, log_right], [log_right, log_wrong]])

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        # The costs of both cases omit the same constant of a report, so they can be mixed.
        flags, logit = reports[:, -1].long(), output[:, -1:]
        if_missing, if_present = self.log_flags.to(output.device)[:, flags]
        missing = if_missing - self.value.cost(self.stand_in.to(output.device), reports[:, :-1])
        present = if_present - self.value.cost(output[:, :-1], reports[:, :-1])
        return -torch.logaddexp(logsigmoid(logit) + missing, logsigmoid(-logit) + present)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        coins = torch.rand(2, len(output), generator=rng).to(output.device)
        missing = coins[0] < torch.sigmoid(output[:, -1])
        points = torch.where(missing[:, None], self.stand_in.to(output.device), output[:, :-1])
        flag = missing ^ (coins[1] < self.wrong)
        return torch.cat([self.value.simulate(points, rng), flag[:, None].to(output.dtype)], dim=1)


class _CosineChannel(PointChannel):
    """Channel of cosine coefficients, whose outputs are pixels."""

    def __init__(self, value: PointChannel, domain: ImageDomain) -> None:
        self.value = value
        self.map = CosineMap(domain)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        return self.value.cost(self.map(output), reports)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        return self.value.simulate(self.map(output), rng)


class _SupportChannel(Channel):
    """Channel of sets of codes: reports (n, w) padded with −1, outputs log-probabilities (n, K)."""

    def __init__(self, form: SupportForm) -> None:
        self.form = form

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        support, reported = release.reports(name)
        return torch.as_tensor(support, dtype=torch.int64), torch.as_tensor(reported)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        member = output.new_zeros(len(reports), output.shape[1] + 1)
        member.scatter_(1, reports % (output.shape[1] + 1), 1.0)  # −1 is the additional last column
        supported = output.exp() @ member[:, :-1].T
        return -torch.log1p((self.form.ratio - 1) * supported)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        truth, size = _draw(output, rng), self.form.size
        own, other = self.form.probabilities
        if size is None:
            chance = torch.full(output.shape, other).scatter_(1, truth[:, None], own)
            bits = torch.rand(output.shape, generator=rng) < chance
            support = torch.as_tensor(codes_of_bits(bits.numpy()), dtype=torch.int64)
        else:
            support = simulate_sets(truth, torch.full_like(truth, output.shape[1]), size, own, rng)
        return support.to(output.device)


class _TableChannel(Channel):
    """Channel with finitely many reports, which are row numbers (n,) of a table of likelihoods."""

    def __init__(self, form: TableForm) -> None:
        self.form = form
        likelihood = torch.as_tensor(form.likelihood)
        # Likelihoods (reports, codes) up to a factor, and distribution functions (codes, reports).
        self.weights = (likelihood / likelihood.amin(dim=1, keepdim=True)).float()
        self.cumulative = likelihood.cumsum(dim=0).T.contiguous()

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        values, reported = release.reports(name)
        rows = np.where(reported, self.form.rows(values), 0)
        return torch.as_tensor(rows), torch.as_tensor(reported)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        return -torch.log(output.exp() @ self.weights.to(output.device)[reports].T)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        truth = _draw(output, rng)
        coins = torch.rand(len(truth), generator=rng, dtype=torch.float64)
        rows = torch.empty_like(truth)
        for code, cumulative in enumerate(self.cumulative):
            rows[truth == code] = torch.searchsorted(cumulative, coins[truth == code])
        return rows.clamp_max(len(self.weights) - 1).to(output.device)


def simulate_sets(
    truth: Tensor, num_values: Tensor, size: int | Tensor, own: float | Tensor, rng: torch.Generator
) -> Tensor:
    """Draw uniform sets of codes that contain the true code with a given probability.

    Arguments:
        truth: True codes (n,).
        num_values: Size of each record's alphabet (n,).
        size: Size of the sets, one for all or one for each record (n,).
        own: Probability that a set contains the true code, one for all or one for each record (n,).
        rng: Seeded generator.

    Returns:
        Codes (n, largest size), padded with −1.
    """
    size = torch.as_tensor(size).expand(len(truth))
    scores = torch.rand(len(truth), int(num_values.max()), generator=rng)
    codes = torch.arange(scores.shape[1])
    scores[codes >= num_values[:, None]] = 3.0
    inside = torch.rand(len(truth), generator=rng) < own
    scores.scatter_(1, truth[:, None], torch.where(inside, -1.0, 2.0)[:, None])
    most = int(size.max())
    drawn = scores.topk(most, dim=1, largest=False).indices
    return torch.where(torch.arange(most) < size[:, None], drawn, -1)


def _draw(log_probabilities: Tensor, rng: torch.Generator) -> Tensor:
    """Draw one code (n,) for each row of log-probabilities (n, K)."""
    probabilities = log_probabilities.exp().cpu()
    return torch.multinomial(probabilities, 1, replacement=True, generator=rng)[:, 0]


def _noise(form: NoiseForm) -> PointChannel:
    return NOISES[form.distance](form.scale)


_CHANNELS: Mapping[type[Form], Callable[[Any], Channel]] = {
    NoiseForm: _noise,
    FlaggedForm: lambda form: _NullableChannel(_noise(form.noise), form),
    SupportForm: _SupportChannel,
    TableForm: _TableChannel,
}


def channel_of(mechanism: Mechanism, schema: Schema, name: str) -> Channel:
    """Build the channel of a split column's mechanism."""
    form = mechanism.form(schema.columns[name])
    if form.alone:
        raise PrivotError(
            f"column {name!r} was reported through windows, which have no slope that a generator could "
            "follow: report it with mechanism 'laplace'"
        )
    channel = _CHANNELS[type(form)](form)
    image = schema.images.get(name)
    if image is not None and image.domain.low_pass is not None:
        assert isinstance(channel, PointChannel)
        return _CosineChannel(channel, image.domain)
    return channel

r"""Channels: the forms of mechanisms on tensors: −log f(report | output), and how reports would look.

A generator's output for one column is a point, or a distribution over the codes of its alphabet. What a
report says of it is in numbers what its mechanism's form says (`privot.mechanisms.forms`).

Of a nullable vector the output is a point v and the logit of a probability $p_m$ of being missing, the
last number of a row. A report is a flag and a noisy point y; where the record is missing, noise was
added to a public stand-in $x_0$ (`mechanisms.nullable_noise`), so the cost is that of two cases,

$$ −\log \big[ p_m f(\text{flag} | \text{missing}) f(y | x_0)
   + (1−p_m) f(\text{flag} | \text{present}) f(y | v) \big] . $$

Of an image, the output is its pixels, whatever was noised. Where cosine coefficients T x were
(`privot.schema.images`), the cost of pixels p and a report y is that of T p and y.

Simulated reports come from a seeded generator: they are the model's own, and protect nobody.
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

# The head: what a generator's features mean, column by column.
#
# A column that is reported with additive noise takes one feature a coordinate, and is a point of its
# domain: through tanh where the domain is a box, as they are elsewhere (and projected when sampled).
# Any other column takes one feature a code of its alphabet, or an atom of its codings where a joint
# report asks it in several, and outputs log-probabilities: the generator never has to decide for one
# code, so its likelihood stays differentiable.
#
# An image takes one feature a pixel, the tanh of which it is. Where only some cosine coefficients T x
# were noised (`privot.schema.images`), frequencies that the mask left out are in no report, and
# nothing could teach a network of free pixels to leave them alone: features are made smooth first, $p
# = \tanh(T^⊤ T\, a)$. The tanh keeps pixels within their bounds and brings back such high frequencies
# as sharp edges need.


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


class Channel(Protocol):
    """One column's mechanism as the curator sees it."""

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        """All reports of the column as a tensor, rows in order, and who reported it (n,)."""

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """Costs (n, m) of n outputs and m reports, up to a constant of each report."""

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """One report for each output, as `read` would give it."""


class PointChannel(ABC):
    """A channel of points: what the curator reads are noisy unit coordinates."""

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        """See `Channel`."""
        values, reported = release.reports(name)
        return torch.as_tensor(values, dtype=torch.float32), torch.as_tensor(reported)

    @abstractmethod
    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`."""

    @abstractmethod
    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""


class LaplaceChannel(PointChannel):
    """‖x − y‖₁/b."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`."""
        return manhattan(output / self.scale, reports / self.scale)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""
        uniform = torch.rand(output.shape, generator=rng).to(output.device) - 0.5
        # The largest float32 below ½: a uniform draw of exactly 0 would be infinite noise.
        magnitude = -torch.log1p(-2 * uniform.abs().clamp_max(0.5 - 2.0**-25))
        return output + self.scale * uniform.sign() * magnitude


class GaussianChannel(PointChannel):
    """‖x − y‖₂²/(2σ²)."""

    def __init__(self, stddev: float) -> None:
        self.stddev = stddev
        # Scaled so that no matrix has to be halved.
        self.scale = math.sqrt(2) * stddev

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`."""
        return squared_euclidean(output / self.scale, reports / self.scale)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""
        return output + self.stddev * torch.randn(output.shape, generator=rng).to(output.device)


class PlanarLaplaceChannel(PointChannel):
    """‖x − y‖₂/b in the plane."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`; the root is smoothed below a ten-thousandth of b, where it has a kink."""
        gap = squared_euclidean(output / self.scale, reports / self.scale)
        return torch.sqrt(gap + 1e-8)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`. The radius has density r e^{−r/b}/b²: a sum of two exponentials."""
        uniform = torch.rand(len(output), 3, generator=rng).to(output.device)
        radius = -torch.log1p(-uniform[:, :2]).sum(dim=1, keepdim=True)
        angle = 2 * torch.pi * uniform[:, 2:]
        return output + self.scale * radius * torch.cat([angle.cos(), angle.sin()], dim=1)


NOISES: Mapping[str, Callable[[float], PointChannel]] = {
    "manhattan": LaplaceChannel,
    "euclidean": PlanarLaplaceChannel,
    "squared_euclidean": GaussianChannel,
}


class NullableChannel(PointChannel):
    """The mixture of missing and present; rows are a point and, last, a logit or a flag."""

    def __init__(self, value: PointChannel, form: FlaggedForm) -> None:
        self.value = value
        self.stand_in = torch.tensor(form.stand_in)[None]
        right, self.wrong = form.probabilities
        # By what the flag says: the logarithms of its probabilities if missing, and if present.
        log_right, log_wrong = math.log(right), math.log(self.wrong)
        self.log_flags = torch.tensor([[log_wrong, log_right], [log_right, log_wrong]])

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`; of the two cases, both up to the same constant of a report."""
        flags, logit = reports[:, -1].long(), output[:, -1:]
        if_missing, if_present = self.log_flags.to(output.device)[:, flags]
        missing = if_missing - self.value.cost(self.stand_in.to(output.device), reports[:, :-1])
        present = if_present - self.value.cost(output[:, :-1], reports[:, :-1])
        return -torch.logaddexp(logsigmoid(logit) + missing, logsigmoid(-logit) + present)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""
        coins = torch.rand(2, len(output), generator=rng).to(output.device)
        missing = coins[0] < torch.sigmoid(output[:, -1])
        points = torch.where(missing[:, None], self.stand_in.to(output.device), output[:, :-1])
        flag = missing ^ (coins[1] < self.wrong)
        return torch.cat([self.value.simulate(points, rng), flag[:, None].to(output.dtype)], dim=1)


class CosineChannel(PointChannel):
    """A channel of coefficients, whose outputs are pixels."""

    def __init__(self, value: PointChannel, domain: ImageDomain) -> None:
        self.value = value
        self.map = CosineMap(domain)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`."""
        return self.value.cost(self.map(output), reports)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""
        return self.value.simulate(self.map(output), rng)


class SupportChannel:
    """Sets of codes: reports are supports (n, w), padded with −1; outputs log-probabilities (n, K)."""

    def __init__(self, form: SupportForm) -> None:
        self.form = form

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        """See `Channel`."""
        support, reported = release.reports(name)
        return torch.as_tensor(support, dtype=torch.int64), torch.as_tensor(reported)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`."""
        member = output.new_zeros(len(reports), output.shape[1] + 1)
        member.scatter_(1, reports % (output.shape[1] + 1), 1.0)  # −1 lands in the spare column
        supported = output.exp() @ member[:, :-1].T
        return -torch.log1p((self.form.ratio - 1) * supported)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""
        truth, size = _draw(output, rng), self.form.size
        own, other = self.form.probabilities
        if size is None:
            chance = torch.full(output.shape, other).scatter_(1, truth[:, None], own)
            bits = torch.rand(output.shape, generator=rng) < chance
            support = torch.as_tensor(codes_of_bits(bits.numpy()), dtype=torch.int64)
        else:
            support = simulate_sets(truth, torch.full_like(truth, output.shape[1]), size, own, rng)
        return support.to(output.device)


class TableChannel:
    """Finitely many reports, which are numbers of a table's rows (n,); outputs log-probabilities."""

    def __init__(self, form: TableForm) -> None:
        self.form = form
        likelihood = torch.as_tensor(form.likelihood)
        # By report, up to a factor; by code, how likely it is to be this report or one before it.
        self.weights = (likelihood / likelihood.amin(dim=1, keepdim=True)).float()
        self.below = likelihood.cumsum(dim=0).T.contiguous()

    def read(self, release: Release, name: str) -> tuple[Tensor, Tensor]:
        """See `Channel`."""
        values, reported = release.reports(name)
        rows = np.where(reported, self.form.rows(values), 0)
        return torch.as_tensor(rows), torch.as_tensor(reported)

    def cost(self, output: Tensor, reports: Tensor) -> Tensor:
        """See `Channel`."""
        return -torch.log(output.exp() @ self.weights.to(output.device)[reports].T)

    def simulate(self, output: Tensor, rng: torch.Generator) -> Tensor:
        """See `Channel`."""
        truth = _draw(output, rng)
        coins = torch.rand(len(truth), generator=rng, dtype=torch.float64)
        rows = torch.empty_like(truth)
        for code, below in enumerate(self.below):
            rows[truth == code] = torch.searchsorted(below, coins[truth == code])
        return rows.clamp_max(len(self.weights) - 1).to(output.device)


def simulate_sets(
    truth: Tensor, num_values: Tensor, size: int | Tensor, own: float | Tensor, rng: torch.Generator
) -> Tensor:
    """Uniform sets of `size` of `num_values` codes that hold the truth with probability `own`.

    Arguments:
        truth: True codes (n,).
        num_values: Size of each one's alphabet (n,).
        size: Size of the sets: one, or each one's (n,).
        own: Probability that the truth is in: one, or each one's (n,).
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
    probabilities = log_probabilities.exp().cpu()
    return torch.multinomial(probabilities, 1, replacement=True, generator=rng)[:, 0]


def _noise(form: NoiseForm) -> PointChannel:
    return NOISES[form.distance](form.scale)


_CHANNELS: Mapping[type[Form], Callable[[Any], Channel]] = {
    NoiseForm: _noise,
    FlaggedForm: lambda form: NullableChannel(_noise(form.noise), form),
    SupportForm: SupportChannel,
    TableForm: TableChannel,
}


def channel_of(mechanism: Mechanism, schema: Schema, name: str) -> Channel:
    """The channel of a split column's mechanism."""
    form = mechanism.form(schema.columns[name])
    if form.alone:
        raise PrivotError(
            f"column {name!r} was reported through windows, which have no slope that a generator could "
            "follow: report it with mechanism 'laplace'"
        )
    channel = _CHANNELS[type(form)](form)
    image = schema.images.get(name)
    if image is not None and image.domain.kept is not None:
        assert isinstance(channel, PointChannel)
        return CosineChannel(channel, image.domain)
    return channel

r"""Channels of additive noise, whose outputs and reports are points, and of points that may be missing.

Of a nullable vector the generator's output is a point v and the logit of a probability $p_m$ of being
missing, the last number of a row. A report is a flag and a noisy point y; where the record is missing,
noise was added to a public stand-in $x_0$ (`mechanisms.nullable_noise`), so the cost is that of a
mixture of two cases,

$$ −\log \big[ p_m f(\text{flag} | \text{missing}) f(y | x_0)
   + (1−p_m) f(\text{flag} | \text{present}) f(y | v) \big] . $$

Of an **image**, the output is its N pixels, the tanh of as many features, whatever was noised. Where
cosine coefficients T x were (`privot.schema.domains.image`), the cost of pixels p and a report y is that
of T p and y. Frequencies that the mask left out are in no report, and nothing could teach a network of
free pixels to leave them alone: features are made smooth first, $p = \tanh(T^⊤ T\, a)$. The tanh keeps
pixels within their bounds and brings back such high frequencies as sharp edges need.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from privot.mechanisms.forms import FlaggedForm
from privot.release import Release
from privot.schema import ImageDomain
from privot.schema.domains.image import cosine_rows
from privot.transport import manhattan, squared_euclidean


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
        height, width = domain.shape[:2]
        rows = (cosine_rows(height, domain.kept[0]), cosine_rows(width, domain.kept[1]))
        self.along, self.across = (torch.tensor(part, dtype=torch.float32) for part in rows)

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

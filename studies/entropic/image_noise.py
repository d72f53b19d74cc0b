r"""Images hidden one by one: the space of the noise, the mechanism, and both ε of the papers' settings.

**Domains.** Pixels lie in [−1, 1]: a box of diameters Δ₁ = 2d, Δ₂ = 2√d (1568 and 56 for d = 784). For
higher privacy each image is projected to an ℓ2 ball of radius 20, or, after an orthonormal cosine
transform whose smaller 80 % of coefficients are set to zero, to an ℓ1 ball of radius 140. Both are
functions of one image, applied before any noise: they cost nothing, and no other image matters.

**Honest ε.** Local privacy hides any record of the domain from any other, so the sensitivity is the
diameter. The 2023 text takes the radius (784, 28, 140, 20), and for Gaussian noise the formula of Zhao
et al.; `claimed_epsilon` is what that arithmetic calls a noise, `guarantee` what it is.

**Who sees what.** The curator sees reports. Noise is drawn by the library's mechanisms from the
operating system's entropy; it has no seed, so reruns differ by it.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024; 2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.fft import dct
from torch import Tensor

from privot.errors import PrivotError
from privot.mechanisms import Gaussian, Laplace
from privot.mechanisms.additive.additive_noise import choose_grid
from privot.privacy import ApproximateDP, PureDP, calibrate_gaussian_zhao
from privot.schema import Domain, from_unit, to_unit
from privot.schema.domains.domain import Box, L1Ball, L2Ball
from privot.transport import manhattan, squared_euclidean

DELTA = 1e-4
SIDE = 28
_KEPT = 0.8
_BLOCK = 5000


@dataclass(frozen=True)
class ImageNoise:
    """How an image of `SIDE`² pixels in [−1, 1] is reported.

    Arguments:
        domain: What a record may be before noise, in its own units.
        mechanism: Noise in the domain's unit coordinates.
        cosine: Whether records are cosine coefficients instead of pixels.
    """

    domain: Box | L1Ball | L2Ball
    mechanism: Laplace | Gaussian
    cosine: bool = False

    @property
    def p(self) -> int:
        """1 for Laplace, 2 for Gaussian: the power of the matched cost."""
        return 1 if isinstance(self.mechanism, Laplace) else 2

    @property
    def scale(self) -> float:
        """Scale b or σ of a coordinate, in the domain's units."""
        unit = float(self.domain.scale[0])
        law = self.mechanism
        return unit * (law.scale if isinstance(law, Laplace) else law.stddev)

    @property
    def stddev(self) -> float:
        """Standard deviation of a coordinate's noise: √2 b, or σ."""
        return self.scale * (math.sqrt(2) if self.p == 1 else 1.0)

    @property
    def reg(self) -> float:
        """Matched entropic weight p σ^p for the cost ‖x − y‖_p^p: b, or 2σ²."""
        return self.scale if self.p == 1 else 2 * self.scale**2

    @property
    def guarantee(self) -> PureDP | ApproximateDP:
        """What hides any record of the domain from any other; δ = 1e-4 for Gaussian noise."""
        if isinstance(self.mechanism, Laplace):
            return self.mechanism.guarantee(self.domain)
        return self.mechanism.guarantee(self.domain, DELTA)

    @property
    def claimed_epsilon(self) -> float:
        """What the 2023 text's arithmetic calls this noise; see `claimed_epsilon`."""
        return claimed_epsilon(self.p, self.scale, _radius(self.domain, self.p))

    def records(self, images: Tensor) -> Tensor:
        """What is noised: pixels, or kept cosine coefficients, projected to the domain (n, d)."""
        values = images
        if self.cosine:
            values = self.into(images)
            threshold = values.abs().quantile(_KEPT, dim=1, keepdim=True)
            values = torch.where(values.abs() >= threshold, values, torch.zeros(()))
        blocks = [self.domain.project(part.double().numpy()) for part in values.split(_BLOCK)]
        return torch.from_numpy(np.concatenate(blocks)).float()

    def report(self, images: Tensor) -> Tensor:
        """Reports (n, d) of images (n, d): projected, then noised by the mechanism."""
        blocks = []
        for part in self.records(images).split(_BLOCK):
            noised = self.mechanism.privatize(to_unit(self.domain, part.double().numpy()))
            blocks.append(torch.from_numpy(from_unit(self.domain, noised)).float())
        return torch.cat(blocks)

    def into(self, images: Tensor) -> Tensor:
        """Images (n, d) in the space of the reports; differentiable."""
        return _cosine(images, inverse=False) if self.cosine else images

    def back(self, values: Tensor) -> Tensor:
        """Pixels of values in the space of the reports."""
        return _cosine(values, inverse=True) if self.cosine else values

    def simulate(self, values: Tensor, rng: torch.Generator) -> Tensor:
        """Fresh noise of the same law, for the model's own outputs: no record, no privacy."""
        if self.p == 2:
            noise = torch.randn(values.shape, generator=rng)
        else:
            uniform = torch.rand(values.shape, generator=rng) - 0.5
            noise = -uniform.sign() * torch.log1p(-2 * uniform.abs().clamp(max=0.5 - 2.0**-25))
        return values + self.scale * noise.to(values.device)

    def cost(self, x: Tensor, y: Tensor) -> Tensor:
        """−log density of reports y (m, d) given values x (n, d), up to a constant: (n, m)."""
        ground = manhattan if self.p == 1 else squared_euclidean
        return ground(x, y) / self.reg


def pixel_noise(kind: str, scale: float) -> ImageNoise:
    """Noise of scale b or σ on pixels in [−1, 1].

    Raises:
        PrivotError: if `kind` is neither `"laplace"` nor `"gaussian"`.
    """
    return _noise(kind, scale, Box((-1.0,) * SIDE**2, (1.0,) * SIDE**2))


def ball_noise(kind: str, claimed: float) -> ImageNoise:
    """The papers' higher privacy: the noise that the 2023 text calls ε = `claimed`, on a ball.

    Laplace: cosine coefficients in the ℓ1 ball of radius 140. Gaussian: pixels in the ℓ2 ball of
    radius 20, δ = 1e-4.
    """
    if kind == "laplace":
        return _noise(kind, 140.0 / claimed, L1Ball(SIDE**2, 140.0), cosine=True)
    return _noise(kind, calibrate_gaussian_zhao(20.0, claimed, DELTA), L2Ball(SIDE**2, 20.0))


def claimed_epsilon(p: int, scale: float, radius: float) -> float:
    r"""ε of noise whose sensitivity is taken to be the radius R, by the 2023 text's formulas.

    Laplace: R/b. Gaussian: with $s = \sqrt2 σ/R$, Zhao et al.'s $s = (c + \sqrt{c^2 + ε})/ε$ solved for
    ε, which is $(1 + 2cs)/s^2$, $c^2 = \log(2/(\sqrt{16δ + 1} − 1))$.

    Examples:
        >>> round(claimed_epsilon(2, calibrate_gaussian_zhao(28.0, 35.0, DELTA), 28.0), 6)
        35.0
    """
    if p == 1:
        return radius / scale
    c = math.sqrt(math.log(2 / (math.sqrt(16 * DELTA + 1) - 1)))
    s = math.sqrt(2) * scale / radius
    return (1 + 2 * c * s) / s**2


def _noise(
    kind: str, scale: float, domain: Box | L1Ball | L2Ball, *, cosine: bool = False
) -> ImageNoise:
    if kind not in ("laplace", "gaussian"):
        raise PrivotError(f"noise {kind!r} is not known: use 'laplace' or 'gaussian'")
    unit = scale / float(domain.scale[0])
    law = Laplace if kind == "laplace" else Gaussian
    return ImageNoise(domain, law(unit, choose_grid(unit)), cosine)


def _radius(domain: Domain, norm: int) -> float:
    """Largest norm of a record: half the diameter, all of these domains being symmetric."""
    return domain.diameter(norm) / 2


def _cosine(values: Tensor, *, inverse: bool) -> Tensor:
    """Orthonormal two-dimensional cosine transform of rows (n, SIDE²)."""
    basis = torch.from_numpy(dct(np.eye(SIDE), norm="ortho", axis=0)).to(values)
    basis = basis.T if inverse else basis
    square = values.reshape(-1, SIDE, SIDE)
    return (basis @ square @ basis.T).reshape(len(values), -1)

r"""Images hidden one by one: the papers' domains, their noise, and both ε.

**Domains.** Pixels lie in [−1, 1]: a box of diameters Δ₁ = 2d, Δ₂ = 2√d (1568 and 56 for d = 784). For
higher privacy each image is projected to an ℓ2 ball of radius 20, or, after an orthonormal cosine
transform, to an ℓ1 ball of radius 140 (`privot.schema.images`). The 2023 text also sets an
image's smaller 80 % of coefficients to zero before it does so; the projection alone leaves few of them.

**Honest ε.** Local privacy hides any record of the domain from any other, so the sensitivity is the
diameter. The 2023 text takes the radius (784, 28, 140, 20), and for Gaussian noise the formula of Zhao
et al.; `claimed_epsilon` is what that arithmetic calls a noise.

References:
    Reshetova, Chen, Özgür, *Training generative models from privatized data via entropic optimal
    transport* (2024; 2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from privot.privacy import calibrate_gaussian_zhao
from privot.randomizer import Randomizer, Release, randomizer_from_noise
from privot.randomizer.reports.rows import ReportTable
from privot.schema import ImageDomain, Schema
from privot.schema.columns.array import tensor_array

DELTA = 1e-4
SIDE = 28
IMAGE = "image"


@dataclass(frozen=True)
class ImageNoise:
    """How an image of `SIDE`² pixels in [−1, 1] is reported.

    Arguments:
        kind: `"laplace"` or `"gaussian"`.
        scale: b or σ.
        radius: Of the ball that images are projected to: in ℓ1 of cosine coefficients for Laplace
            noise, in ℓ2 of pixels for Gaussian noise; the whole box without.
    """

    kind: str
    scale: float
    radius: float | None = None

    @cached_property
    def randomizer(self) -> Randomizer:
        """What the devices do."""
        column: dict[str, Any] = {"kind": "array", "shape": [SIDE, SIDE], "bounds": [-1, 1]}
        if self.radius is not None:
            column |= {"radius": self.radius}
            column |= {"norm": 1, "transform": "dct"} if self.kind == "laplace" else {}
        schema = Schema.from_dict({"columns": {IMAGE: column}})
        return randomizer_from_noise(schema, self.scale, self.delta, mechanism=self.kind)

    @property
    def domain(self) -> ImageDomain:
        """Of the records, in the space of the noise."""
        return self.randomizer.schema.images[IMAGE].domain

    @property
    def delta(self) -> float:
        """The papers' δ; none for Laplace noise."""
        return DELTA if self.kind == "gaussian" else 0.0

    @property
    def stddev(self) -> float:
        """Standard deviation of a coordinate's noise: √2 b, or σ."""
        return self.scale * (math.sqrt(2) if self.kind == "laplace" else 1.0)

    def both_epsilons(self) -> dict[str, float]:
        """What hides any record from any other, and what the 2023 text calls it."""
        norm = 1 if self.kind == "laplace" else 2
        claimed = claimed_epsilon(self.kind, self.scale, self.domain.diameter(norm) / 2)
        return {"epsilon": self.randomizer.guarantee.epsilon, "claimed_epsilon": claimed}

    def report(self, images: Tensor) -> Release:
        """Reports of images (n, SIDE²), in their order."""
        raw = images.reshape(-1, SIDE, SIDE).numpy()
        return self.randomizer.privatize({IMAGE: tensor_array(raw)}, keep_order=True)

    def projected(self, images: Tensor) -> Tensor:
        """Pixels of the records that images (n, SIDE²) become before any noise."""
        return self._pixels(self.domain.encode(images.double().numpy()))

    def pixels(self, release: Release) -> Tensor:
        """Reports as images (n, SIDE²)."""
        return self._pixels(release.reports(IMAGE)[0].astype("float64"))

    def _pixels(self, points: Any) -> Tensor:
        return torch.from_numpy(self.domain.decode(points)).float()


def ball_noise(kind: str, claimed: float) -> ImageNoise:
    """The papers' higher privacy: the noise that the 2023 text calls ε = `claimed`, on a ball."""
    if kind == "laplace":
        return ImageNoise(kind, 140.0 / claimed, 140.0)
    return ImageNoise(kind, calibrate_gaussian_zhao(20.0, claimed, DELTA), 20.0)


def in_place_of(release: Release, images: Tensor) -> Release:
    """The release with these pixels (n, SIDE²) as reports: whatever was made of them."""
    flat = pa.array(images.flatten().numpy())
    column = pa.FixedSizeListArray.from_arrays(flat, SIDE**2)
    place = release.table.column_names.index(IMAGE)
    table = release.table.set_column(place, release.table.schema.field(IMAGE), column)
    return Release(ReportTable.of(table), release.randomizer)


def first_of(release: Release, num_people: int) -> Release:
    """The reports of the first people."""
    return Release(ReportTable.of(release.table.slice(0, num_people)), release.randomizer)


def claimed_epsilon(kind: str, scale: float, radius: float) -> float:
    r"""ε of noise whose sensitivity is taken to be the radius R, by the 2023 text's formulas.

    Laplace: R/b. Gaussian: with $s = \sqrt2 σ/R$, Zhao et al.'s $s = (c + \sqrt{c^2 + ε})/ε$ solved for
    ε, which is $(1 + 2cs)/s^2$, $c^2 = \log(2/(\sqrt{16δ + 1} − 1))$.

    Examples:
        >>> round(claimed_epsilon("gaussian", calibrate_gaussian_zhao(28.0, 35.0, DELTA), 28.0), 6)
        35.0
    """
    if kind == "laplace":
        return radius / scale
    c = math.sqrt(math.log(2 / (math.sqrt(16 * DELTA + 1) - 1)))
    s = math.sqrt(2) * scale / radius
    return (1 + 2 * c * s) / s**2

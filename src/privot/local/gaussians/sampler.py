"""What a model of Gaussian classes draws records from: a label first, then a point of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from privot.local.gaussians.channel import SmoothChannel
from privot.local.gaussians.law import GaussianClasses
from privot.local.gaussians.pictures import Pictures
from privot.models.files import Array
from privot.release import Randomizer
from privot.release.reports.candidates import CandidatesReport
from privot.schema.columns.array import ArrayColumn
from privot.schema.domains.domain import from_unit

if TYPE_CHECKING:
    from privot.local.model import Condition

_PARTS = ("shares", "missing", "means", "factors", "variances")
_OF_PICTURES = ("texture", "means", "shifted", "stretch")


@dataclass(frozen=True, eq=False)
class GaussianSampler:
    """Gaussian classes, and what their points stand for.

    Arguments:
        law: Of labels and points.
        report: Which columns they are.
        pictures: How images are completed; None of vectors.
    """

    law: GaussianClasses
    report: CandidatesReport
    pictures: Pictures | None = None
    kind: ClassVar[str] = "gaussian_classes"

    def records(self, num_rows: int, rng: np.random.Generator, where: Condition) -> pa.Table:
        """See `Sampler`."""
        report, label = self.report, self.report.label
        codes = self.law.draw_labels(num_rows, rng, where.get(label) if label else None)
        points, column = self.law.draw_points(codes, rng), report.coordinates.column
        if self.pictures is None:
            x, _ = report.coordinates.numbers(points)
            columns = column.decode_points(report.name, from_unit(column.domain, x))
        else:
            pixels = self.pictures.of_points(points, codes, rng)
            columns = cast("ArrayColumn", column).decode_pixels(report.name, pixels)
        if report.labels is not None and label is not None:
            columns |= report.labels.decode_codes(label, codes, rng)
        return pa.table(columns)

    def shape(self) -> dict[str, Any]:
        """See `Sampler`."""
        return {"channel": self.law.channel.to_dict()}

    def arrays(self) -> dict[str, Array]:
        """See `Sampler`."""
        numbers = {name: getattr(self.law, name) for name in _PARTS}
        if self.pictures is not None:
            numbers |= self.pictures.arrays()
        return {name: np.asarray(values) for name, values in numbers.items()}

    @classmethod
    def build(
        cls, randomizer: Randomizer, shape: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> GaussianSampler:
        """The sampler that `shape` and `arrays` describe."""
        channel = SmoothChannel(**shape["channel"])
        law = GaussianClasses(channel, *(arrays[name] for name in _PARTS))
        if randomizer.candidates is None:
            raise ValueError("the randomizer has no candidates")
        report = randomizer.candidates
        if report.coordinates.column.image_shape is None:
            return cls(law, report)
        texture, *rest = (arrays[f"picture.{name}"] for name in _OF_PICTURES)
        return cls(law, report, Pictures(report.coordinates, float(texture), *rest))

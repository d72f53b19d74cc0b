"""What a fit by rounds of noisy sums may be told; what is left open follows from ε, records and size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privot.errors import MOST_STEPS, PrivotError, require_count, require_seed

_NORM = 0.5  # of an image's, were all pixels 1: what is longer is made darker


@dataclass(frozen=True, kw_only=True)
class MixtureSettings:
    """What rounds of noisy sums are to tell; None is chosen from ε, δ and the number of records.

    Arguments:
        components: Of images and vectors, for each label.
        low_pass: Of images: frequencies of components' means, along each axis.
        residual_low_pass: Of images: frequencies in which the rest varies, along each axis.
        norm: Of images: length, in units of a white one's, beyond which an image is made darker; of
            vectors, in units of the longest from the middle, beyond which one is made shorter.
        classes: Of tables: latent classes; by default as many as explain what was released.
        seed: Of starts and what else is drawn in public; never of noise.
    """

    components: int | None = None
    low_pass: int | None = None
    residual_low_pass: int | None = None
    norm: float = _NORM
    classes: int | None = None
    seed: int = 0

    counts: ClassVar[tuple[str, ...]] = ("components", "low_pass", "residual_low_pass", "classes")

    def __post_init__(self) -> None:
        for name in self.counts:
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, require_count(name, value, MOST_STEPS))
        if not 0 < self.norm <= 1:
            raise PrivotError(f"norm {self.norm}: give a share of a white image's, up to 1")
        object.__setattr__(self, "seed", require_seed(self.seed))

r"""A point that may be missing: a flag by randomized response, and always a noised point.

A device that sent a point only where it has one would tell whether it has one. So every device
sends both: a flag, which says "missing" or "present" under randomized response of $ε_f$, and a point
with additive noise of $ε_v$. Where the record is missing, the noise is added to a **public stand-in**
$x_0$, the domain's point nearest to the center of its chart; flag and noise are drawn independently.
With $m$ the record's own missingness,

$$ f(\text{flag}, y \mid m, x) = f(\text{flag} | m) \, f(y | x_0)^m f(y | x)^{1−m} . $$

**How ε is split.** Any two records are one of

- both present: flags have the same law, the loss is $ε_v$, noise being scaled to the diameter Δ;
- both missing: no loss;
- one missing: $ε_f$ for the flag, and for the point what lies between $x_0$ and the farthest $x$:
  $s\,ε_v$, where $s = 1$ always holds, and $s = ½$ for domains that are symmetric about $x_0$ (boxes,
  balls): the reflection $−x$ of a record is a record, rounding to the grid commutes with it, so
  $‖\tilde x‖ = ½ ‖\tilde x − \widetilde{(−x)}‖$ is at most half of what two rounded records may differ
  by.

Hence $ε = \max(ε_v,\; ε_f + s\,ε_v)$. `calibrate` takes $ε_f = ε/2$ and $ε_v = ε$ where $s = ½$, so a
point of such a domain has no more noise for being nullable; elsewhere $ε_f = ε_v = ε/2$.

**Privacy review.** Adjacency: any two records, missing or not. Who sees what: the flag and the point
leave the device, both noised, in every report. Besides the noised values nothing depends on the
record: the stand-in is put in before any noise is drawn, so both cases take the same path and the same
samplers, whose time tells noise only. A half missing vector counts as missing: there is nothing to
refuse, and a refusal would be seen. What a curator must not do is read the flag as the truth, or drop
points whose flag says "missing": the flag is noise too, and the likelihood weighs both cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.mechanisms.additive.additive_noise import AdditiveNoise, stand_in
from privot.mechanisms.forms import FlaggedForm
from privot.mechanisms.mechanism import Mechanism, mechanism_kind
from privot.mechanisms.oracles.randomized_response import RandomizedResponse
from privot.privacy.guarantees.guarantee import PureDP
from privot.privacy.rounding import percent_at_most, sum_up
from privot.schema import Array, Column, Domain


class _Noise(Protocol):
    """Noise whose loss is the distance of two rounded records over its scale."""

    @classmethod
    def calibrate(cls, domain: Domain, epsilon: float) -> AdditiveNoise:
        """The least that is ε-private on a domain."""


def noise_for(noise: type[_Noise], column: Column, epsilon: float) -> Mechanism:
    """Noise for a column's points, beside a flag where they may be missing."""
    assert column.domain is not None
    if column.nullable:
        return NullableNoise.around(noise, column.domain, epsilon)
    return noise.calibrate(column.domain, epsilon)


def mark_missing(points: Array, domain: Domain) -> Array:
    """Records as the mechanism takes them: unit coordinates and 1 where missing, (n, d+1).

    A row with a NaN is missing: it becomes the stand-in.
    """
    missing = np.isnan(points).any(axis=1, keepdims=True)
    return np.hstack([np.where(missing, stand_in(domain), points), missing])


@dataclass(frozen=True)
class NullableNoise(Mechanism, kind="nullable"):
    """A flag and a noisy point; records and reports are (n, d+1), the last number the flag.

    Arguments:
        value: Noise of the point.
        flag: Response about missingness: 0 is present, 1 is missing.

    Examples:
        >>> from privot.mechanisms import Laplace
        >>> from privot.schema import Box
        >>> place = Box((0.0, 0.0), (9.0, 9.0))
        >>> mechanism = NullableNoise.around(Laplace, place, epsilon=2.0)
        >>> mechanism.flag.epsilon, mechanism.value.guarantee(place).epsilon
        (1.0, 2.0)
        >>> print(mechanism.guarantee(place))
        ε = 2 (pure), local, per person
    """

    value: AdditiveNoise
    flag: RandomizedResponse

    flagged, by_kind, among_auto = True, False, False

    def __post_init__(self) -> None:
        if not isinstance(self.value, AdditiveNoise) or not self.value.by_distance:
            raise PrivotError(
                f"value is {type(self.value).__name__}: a point that may be missing needs "
                "laplace or planar_laplace noise"
            )
        if type(self.flag) is not RandomizedResponse or self.flag.num_categories != 2:
            raise PrivotError(
                f"flag is {self.flag!r:.80}: give randomized response of two categories"
            )

    @classmethod
    def around(cls, noise: type[_Noise], domain: Domain, epsilon: float) -> Self:
        """The split that the module's docstring gives."""
        half = epsilon / 2
        value = noise.calibrate(domain, epsilon if domain.symmetric else half)
        return cls(value, RandomizedResponse(2, half))

    @classmethod
    def unfit(cls, column: Column) -> str:
        """Made by its noise's kind, never by its own."""
        return "it is noise and a flag: use 'laplace' or 'planar_laplace'"

    @classmethod
    def for_column(cls, column: Column, epsilon: float) -> Mechanism:
        """That of Laplace noise."""
        return mechanism_kind("laplace").for_column(column, epsilon)

    @property
    def asked_as(self) -> str:
        """That of the noise."""
        return self.value.kind

    def records(self, points: Array, domain: Domain) -> Array:
        """Points and flags."""
        return mark_missing(points, domain)

    def fits(self, column: Column) -> bool:
        """Whether the column's values are points that may be missing, of which no code can tell."""
        return not self.value.unfit(column) and column.nullable

    def form(self, column: Column) -> FlaggedForm:
        """The noise's, and the flag's."""
        assert column.domain is not None
        start = tuple(stand_in(column.domain).tolist())
        return FlaggedForm(self.value.form(column), self.flag.probabilities, start)

    def kept(self, waves: Array) -> Array:
        """By the noise of the point."""
        return self.value.kept(waves)

    def expected(self, column: Column) -> dict[str, Any]:
        """That of the point, and how often the flag is right."""
        told, keep = super().expected(column), self.flag.probabilities[0]
        flag = f"and whether it is missing, the truth with probability {percent_at_most(keep)}"
        return told | {"keep": keep, "in_words": f"{told['in_words']}, {flag}"}

    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP:
        """$\\max(ε_v, ε_f + s ε_v)$ between any two records, rounded up; no δ is needed."""
        present = self.value.guarantee(domain).epsilon
        assert domain is not None  # or the noise has refused
        reach = present / 2 if domain.symmetric else present
        return PureDP(max(present, sum_up([self.flag.guarantee().epsilon, reach])))

    def privatize(self, x: Array) -> Array:
        """Reports for records (n, d+1) of `mark_missing`.

        Raises:
            PrivotError: if a number is not finite, or a flag neither 0 nor 1.
        """
        x = np.asarray(x, np.float64)
        flags = x[..., -1]
        if not np.isin(flags, (0.0, 1.0)).all():
            raise PrivotError("x has a flag that is neither 0 nor 1: mark what is missing")
        points = self.value.privatize(x[..., :-1])
        told = self.flag.privatize(flags.astype(np.int64))
        return np.concatenate([points, told[..., None]], axis=-1)

    def log_likelihood(self, y: Array, x: Array) -> Array:
        """$\\ln f(\\text{flag} | m) + \\ln f(\\text{point} | x)$; `y` and `x` broadcast."""
        y, x = np.asarray(y, np.float64), np.asarray(x, np.float64)
        points = self.value.log_likelihood(y[..., :-1], x[..., :-1])
        return points + self.flag.log_likelihood(
            y[..., -1].astype(np.int64), x[..., -1].astype(np.int64)
        )

    def possible(self, y: Array, domain: Domain | None = None) -> NDArray[np.bool_]:
        """A flag that is 0 or 1, and a point that the noise can have made."""
        return np.isin(y[:, -1], (0.0, 1.0)) & self.value.possible(y[:, :-1], domain)

    def to_grid(self, y: Array) -> Array:
        """Reports with their points back on the grid that they were drawn on."""
        return np.hstack([self.value.to_grid(y[:, :-1]), y[:, -1:]])

    def probability_cells(
        self, reports: Array, x: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Those of the point, and of the flag."""
        points = self.value.probability_cells(reports[:, :-1], x[:, :-1], rng)
        flags = self.flag.probability_cells(
            reports[:, -1:].astype(np.int32), x[:, -1].astype(np.int64), rng
        )
        low, high = (np.hstack(ends) for ends in zip(points, flags, strict=True))
        return low, high

    def impossible(self, reports: Array) -> NDArray[np.bool_]:
        """Those that are not finite, or whose flag is neither 0 nor 1."""
        return super().impossible(reports) | ~np.isin(reports[:, -1], (0.0, 1.0))

    @property
    def bias(self) -> float:
        """Of a coordinate that is present."""
        return self.value.bias

    @property
    def variance(self) -> float:
        """Of a coordinate that is present."""
        return self.value.variance

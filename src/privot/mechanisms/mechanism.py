r"""Mechanisms: local randomizers with a known likelihood.

A mechanism is a channel $f(y | x)$ that a person's device applies to one column: `privatize` draws
$y ∼ f(· | x)$ exactly, and `log_likelihood` evaluates $\ln f(y | x)$ exactly, so that a curator can
estimate the distribution of $x$ from reports $y$. Its `guarantee` bounds $f(y | x) / f(y | x′)$ over
**every** pair of records (local privacy: neighbors are any two values that one person may hold).

A mechanism also defines the columns that it can report (`unfit`, `fits`), its calibration for a column
(`for_column`), the information in its reports (`information` of codes, `attenuation` of points), the
likelihood in closed form (`form`), and the expected error in words (`expected`). Two methods serve an
**audit** of its draws (`privot.audit.statistics`): `impossible` finds reports that no record can have,
and `probability_cells` maps reports to numbers that are uniform if the draws have the claimed law.

Records are *unit coordinates* of the column's domain (float64, shape (n, d)), or integer codes of
categories (shape (n,)). A report reveals nothing of a record beyond the noised value: the time of a draw
depends on the noise only (see the samplers).

Mechanisms are frozen dataclasses of plain numbers, which `to_dict` writes and `mechanism_from_dict`
reads. A subclass with a `kind` is registered under that name.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError, register_kind
from privot.mechanisms.forms import Form
from privot.privacy.distributed import ReportLaw
from privot.privacy.guarantees import ApproximateDP, PureDP
from privot.privacy.rounding import at_least, at_most, percent_at_least
from privot.schema import Column, Domain
from privot.schema.domains import Array

# Reports with a smaller probability under every record count as impossible.
NEGLIGIBLE = 2.0**-64

_KINDS: "dict[str, type[Mechanism]]" = {}


@dataclass(frozen=True)
class Mechanism(ABC):
    """A local randomizer. Subclasses name their `kind`: `class Laplace(Mechanism, kind=…)`."""

    kind: ClassVar[str]
    pure: ClassVar[bool] = True  # no δ is needed
    takes_codes: ClassVar[bool] = False  # records are codes of an alphabet, not points of a domain
    names_code: ClassVar[bool] = False  # a report is one code, as a record is
    by_kind: ClassVar[bool] = True  # users may request the mechanism by its kind
    shares_delta: ClassVar[bool] = False  # several of this kind share one δ (Gaussian noise)
    among_auto: ClassVar[bool] = True  # `choose_mechanism` may choose it
    noise_word: ClassVar[str] = "noise"  # name of the error in `expected`
    bias: ClassVar[float] = 0.0  # bias of the debiased report

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            cls.kind = kind
            register_kind(_KINDS, kind, cls, "mechanism")

    @classmethod
    @abstractmethod
    def unfit(cls, column: Column) -> str:
        """Return why this kind cannot report a column, and which kind can; "" if this one can."""

    @classmethod
    @abstractmethod
    def for_column(cls, column: Column, epsilon: float) -> "Mechanism":
        """Return the most accurate mechanism of this kind for a column at `epsilon`."""

    @property
    def requested_kind(self) -> str:
        """Kind by which users request this mechanism."""
        return self.kind

    @property
    def flagged(self) -> bool:
        """Whether records and reports end with a flag, 1 if missing."""
        return False

    def records(self, points: Array, domain: Domain) -> Array:
        """Return the records of points (n, d) in unit coordinates; a row of NaN is a missing point."""
        return points

    def report_domain(self, domain: Domain) -> Domain:
        """Return the domain whose unit coordinates the reports have; by default, that of the points."""
        return domain

    def fits(self, column: Column) -> bool:
        """Return whether this mechanism can report every value of the column."""
        return not self.unfit(column)

    @abstractmethod
    def form(self, column: Column) -> Form:
        """Return the likelihood, given points or bins, that fits of the column maximize."""

    def point_form(self, column: Column) -> Form:
        """Return the likelihood given points, for a column that is reported alone."""
        return self.form(column)

    def places(self, records: Array, domain: Domain) -> Array:
        """Return the points (n, d), in unit coordinates, of records (n, c) in `report_domain`."""
        return records

    def information(self, column: Column) -> float:
        """Return the mutual information, in bits, of a report and a uniform code; NaN for points."""
        return math.nan

    def attenuation(self, frequencies: Array) -> Array:
        """Return the factors (k,) by which noise multiplies the means of waves; NaN for codes.

        A wave is $e^{i⟨ω, x⟩}$, with the frequency ω a row of `frequencies` (k, d).
        """
        return np.full(len(frequencies), math.nan)

    def report_bits(self, column: Column) -> int:
        """Return the size of a report in bits; by default 64 for each coordinate."""
        return 64 if column.domain is None else 64 * column.domain.dimension

    def expected(self, column: Column) -> dict[str, Any]:
        """Describe the error of a report, in numbers and `in_words`.

        By default this is the noise of a point: `stddev` of each coordinate in the column's units, and
        `relative` to its range. For an image, `stddev` is one number, for pixels in [−1, 1].
        """
        domain, unit_stddev = column.domain, float(np.sqrt(self.variance))
        assert domain is not None
        relative = unit_stddev / 2  # the range is 2 in unit coordinates
        stddev: Any = unit_stddev
        if column.image_shape is not None:
            size = (
                f"{at_least(unit_stddev)} on each of {domain.dimension:,} pixels or coefficients "
                f"(pixels from -1 to 1; images are at most {at_most(domain.diameter(2))} apart)"
            )
        else:
            stddev = (unit_stddev * domain.scale).tolist()
            first = ", ".join(map(at_least, stddev[:4])) + (", …" if len(stddev) > 4 else "")
            size = f"{first} ({percent_at_least(relative, 2)} of the range)"
        words = f"{self.noise_word} of standard deviation {size}"
        return {"stddev": stddev, "relative": relative, "in_words": words}

    @abstractmethod
    def privatize(self, x: NDArray[Any]) -> NDArray[Any]:
        """Draw one report for every record in `x`, with fresh noise from the operating system."""

    def program(self, column: Column) -> dict[str, Any] | None:
        """Return the program of a device's draws (`privot.wire.draws`); None if devices cannot draw."""
        return None

    def of_device(self, answers: NDArray[np.int64]) -> NDArray[Any]:
        """Convert integers (n, m) that devices drew by `program` to reports.

        Raises:
            PrivotError: if there is no program.
        """
        raise PrivotError(f"mechanism {self.kind!r} has no program for devices: use another")

    @abstractmethod
    def log_likelihood(self, y: NDArray[Any], x: NDArray[Any]) -> Array:
        """Evaluate $\\ln f(y | x)$, summed over the coordinates of a report; `y` and `x` broadcast."""

    @abstractmethod
    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP | ApproximateDP:
        """Bound the privacy loss between any two records of `domain`, at `delta` if it is not pure.

        Additive noise needs the domain; mechanisms with their own alphabet ignore it.
        """

    @abstractmethod
    def probability_cells(
        self, reports: NDArray[Any], x: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        r"""Return the lower and upper ends (n, m) of the cells of Rosenblatt's transform (1952).

        A coordinate's cell is the interval $[F(y−), F(y))$, with F the distribution function of the
        coordinate given the record and the earlier coordinates. If and only if the reports have the
        claimed law, uniform points of all cells are independent and uniform on (0, 1). If a report has
        many coordinates, random ones are tested. Ends beyond 1 count modulo 1.

        Arguments:
            reports: Unit coordinates (n, d), or supported codes (n, w).
            x: Their records (n, …).
            rng: Generator that chooses the tested coordinates.
        """

    def support(self, reports: NDArray[Any]) -> NDArray[np.int32]:
        """Return the codes (n, w) that each report supports, padded with −1, if records are codes."""
        return np.asarray(reports, np.int32).reshape(len(reports), -1)

    def impossible(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask (n,) of the reports (n, …) that no record can have."""
        return ~np.isfinite(reports).all(axis=1)

    def to_grid(self, y: Array) -> Array:
        """Return the possible reports nearest to `y`, to undo the rounding of units and of files."""
        return y

    def log_ratio(self, reports: NDArray[Any], x: NDArray[Any], other: NDArray[Any]) -> Array:
        """Evaluate $\\ln f(y | x) / f(y | x′)$ of reports (n, …)."""
        return self.log_likelihood(reports, x) - self.log_likelihood(reports, other)

    @property
    def report_law(self) -> ReportLaw | None:
        """Overlap of the laws of reports, for the accounting of shuffled reports; None if unknown."""
        return None

    def gaussian_mu(self, domain: Domain) -> float | None:
        """Return μ of Gaussian differential privacy (Dong, Roth, Su 2022); None if ε is pure.

        An audit tests μ if δ is so small that the events that ε bounds are too rare to count.
        """
        return None

    def possible(self, y: NDArray[Any], domain: Domain | None = None) -> NDArray[np.bool_]:
        """Return a mask (n,) of the reports (n, d), or supports (n, w), that a device can have sent.

        Reports of probability below $2^{−64}$ for every record of `domain` are excluded. This bounds
        the influence of any report, even a forged one: under pure ε, its likelihoods given two records
        differ by a factor of at most $e^ε$.
        """
        return ~self.impossible(y)

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the debiased report (of a coordinate, or of a rare category's indicator)."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: `kind` and the dataclass fields, with nested mechanisms as dicts."""
        values: dict[str, Any] = {"kind": self.kind}
        for field in fields(self):
            value = getattr(self, field.name)
            values[field.name] = value.to_dict() if isinstance(value, Mechanism) else value
        return values


def mechanism_kind(kind: object) -> "type[Mechanism]":
    """Return the mechanism class of a kind, such as `"laplace"`; raise PrivotError if unknown."""
    if not isinstance(kind, str) or kind not in _KINDS:
        raise PrivotError(f"mechanism kind {kind!r} is unknown: use one of {', '.join(_KINDS)}")
    return _KINDS[kind]


def mechanism_kinds(column: Column | None = None) -> "dict[str, type[Mechanism]]":
    """Return the mechanism classes of all kinds, or of those that can report a column, by kind."""
    return {kind: cls for kind, cls in _KINDS.items() if column is None or not cls.unfit(column)}


def mechanism_from_dict(description: Mapping[str, Any]) -> "Mechanism":
    """Return the mechanism that `to_dict` described.

    Raises:
        PrivotError: if the kind is unknown, or the fields are not those of the kind.

    Examples:
        >>> from privot.mechanisms import Laplace
        >>> mechanism_from_dict(Laplace(scale=1.0, grid=2.0**-10).to_dict()).scale
        1.0
    """
    cls = mechanism_kind(description.get("kind"))
    values = {
        name: mechanism_from_dict(value) if isinstance(value, Mapping) else value
        for name, value in description.items()
        if name != "kind"
    }
    expected = {field.name for field in fields(cls)}
    if values.keys() != expected:
        raise PrivotError(
            f"mechanism {cls.kind!r} has fields {sorted(values)}: give exactly {sorted(expected)}"
        )
    return cls(**values)

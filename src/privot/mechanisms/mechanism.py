r"""Mechanisms: local randomizers with a known likelihood.

A mechanism is a channel $f(y | x)$ that a person's device applies to one column. It offers both halves
of private learning: `privatize` draws $y ∼ f(· | x)$ exactly, and `log_likelihood` evaluates
$\ln f(y | x)$ exactly, so that a curator can learn the law of $x$ from reports $y$. Its `guarantee`
bounds $f(y | x) / f(y | x′)$ over **every** pair of records (local privacy: neighbors are any two values
that one person may hold).

Everything else that depends on a mechanism's kind it says itself: which columns it is for (`unfit`,
`fits`), how it is made for one (`for_column`), how much its reports tell (`information` of codes,
`attenuation` of points), what a curator learns from (`form`), how its noise is put into words
(`expected`), what a record is to it (`records`), and what an **audit** of its draws should find: which
reports are `impossible`, and, by `probability_cells`, how reports of one record are turned into
independent uniform numbers: one test for all laws (`privot.audit.statistics`).

Every mechanism sees *unit coordinates* of its column's domain (float64, shape (n, d)), or integer
codes of categories (shape (n,)). What comes out depends on a record through the noised value alone,
except for time: the samplers' docstrings say what their timing tells, which is noise only.

Mechanisms are frozen dataclasses of plain numbers: what `to_dict` writes, `mechanism_from_dict`
reads back. Naming a `kind` makes one known by that name wherever a mechanism may be named.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.mechanisms.forms import Form
from privot.privacy.guarantees import ApproximateDP, PureDP
from privot.privacy.rounding import at_least, at_most, percent_at_least
from privot.privacy.shuffling import ReportLaw
from privot.schema import Column, Domain
from privot.schema.domains import Array

# Reports that are less likely than this, whatever the record, are nobody's.
UNHEARD_OF = 2.0**-64

_KINDS: dict[str, type[Mechanism]] = {}


@dataclass(frozen=True)
class Mechanism(ABC):
    """A local randomizer. Subclasses name their `kind`: `class Laplace(Mechanism, kind=…)`."""

    kind: ClassVar[str]
    pure: ClassVar[bool] = True  # no δ is needed
    takes_codes: ClassVar[bool] = False  # records are codes of an alphabet, not points of a domain
    names_code: ClassVar[bool] = False  # a report is one code, as a record is
    by_kind: ClassVar[bool] = True  # may be requested by its kind
    shares_delta: ClassVar[bool] = False  # several spend one δ together, as Gaussians do
    among_auto: ClassVar[bool] = True  # may be chosen without being named
    noise_word: ClassVar[str] = "noise"

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            known = _KINDS.setdefault(kind, cls)
            # A module that is loaded again defines its class again.
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise PrivotError(
                    f"mechanism kind {kind!r} is {known.__module__}.{known.__qualname__}: give yours a "
                    "name of its own"
                )
            cls.kind, _KINDS[kind] = kind, cls

    @classmethod
    @abstractmethod
    def unfit(cls, column: Column) -> str:
        """Say why no mechanism of this kind is for a column, and what is instead; nothing if one is."""

    @classmethod
    @abstractmethod
    def for_column(cls, column: Column, epsilon: float) -> Mechanism:
        """The most accurate one that spends `epsilon` on a column that it is not `unfit` for."""

    @property
    def requested_kind(self) -> str:
        """Kind that it is requested by."""
        return self.kind

    @property
    def flagged(self) -> bool:
        """True if records and reports have one number more: 1 where missing."""
        return False

    def records(self, points: Array, domain: Domain) -> Array:
        """Return what `privatize` takes of points (n, d) in the unit domain; rows of NaN are missing."""
        return points

    def report_domain(self, domain: Domain) -> Domain:
        """Return the domain of whose unit coordinates reports are: by default, the points' own."""
        return domain

    def fits(self, column: Column) -> bool:
        """Return True if it reports every value that the column declares."""
        return not self.unfit(column)

    @abstractmethod
    def form(self, column: Column) -> Form:
        """Return the form that the column is learned by: a point or, beside other columns, its bins."""

    def point_form(self, column: Column) -> Form:
        """Return the form that the column's points are learned by, where there is nothing else."""
        return self.form(column)

    def places(self, records: Array, domain: Domain) -> Array:
        """Points (n, d) in unit coordinates of records (n, c) of `report_domain`."""
        return records

    def information(self, column: Column) -> float:
        """Bits that one report tells of a code of uniform prior; NaN of mechanisms of points."""
        return math.nan

    def attenuation(self, waves: Array) -> Array:
        """Share (k,) that reports keep of waves $e^{i⟨ω, x⟩}$ (k, d); NaN of mechanisms of codes."""
        return np.full(len(waves), math.nan)

    def report_bits(self, column: Column) -> int:
        """Size of a report: 64 bits a coordinate, by default."""
        return 64 if column.domain is None else 64 * column.domain.dimension

    def expected(self, column: Column) -> dict[str, Any]:
        """Describe a report to be expected, in numbers and `in_words`.

        By default the noise of a point: `stddev` of each coordinate, in the column's units, and
        `relative` to the coordinate's range. Of an image it is one number, pixels being in [−1, 1].
        """
        domain, deviation = column.domain, float(np.sqrt(self.variance))
        assert domain is not None
        if column.image_shape is not None:
            words = (
                f"{self.noise_word} of standard deviation {at_least(deviation)} on each of "
                f"{domain.dimension:,} pixels or coefficients (pixels from -1 to 1; images are at most "
                f"{at_most(domain.diameter(2))} apart)"
            )
            return {"stddev": deviation, "relative": deviation / 2, "in_words": words}
        stddev = (deviation * domain.scale).tolist()
        each = ", ".join(map(at_least, stddev[:4])) + (", …" if len(stddev) > 4 else "")
        share = percent_at_least(deviation / 2, 2)
        words = f"{self.noise_word} of standard deviation {each} ({share} of the range)"
        return {"stddev": stddev, "relative": deviation / 2, "in_words": words}

    @abstractmethod
    def privatize(self, x: NDArray[Any]) -> NDArray[Any]:
        """Draw one report for every record in `x`, with fresh noise from the operating system."""

    def program(self, column: Column) -> dict[str, Any] | None:
        """Return a device's draw from integers (`privot.wire.draws`); None if it takes logarithms."""
        return None

    def of_device(self, answers: NDArray[np.int64]) -> NDArray[Any]:
        """Reports, as `privatize` returns them, of what devices drew by its `program` (n, m).

        Raises:
            PrivotError: if it has none.
        """
        raise PrivotError(f"mechanism {self.kind!r} has no program for devices: use another")

    @abstractmethod
    def log_likelihood(self, y: NDArray[Any], x: NDArray[Any]) -> Array:
        """Evaluate $\\ln f(y | x)$, a sum over the coordinates of a report; `y`, `x` broadcast."""

    @abstractmethod
    def guarantee(self, domain: Domain | None = None, delta: float = 0.0) -> PureDP | ApproximateDP:
        """Bound the privacy loss between any two records of `domain`; `delta` where δ is spent.

        Additive noise needs the domain; mechanisms that carry their own alphabet ignore it.
        """

    @abstractmethod
    def probability_cells(
        self, reports: NDArray[Any], x: NDArray[Any], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        r"""The part of (0, 1) that each coordinate of a report takes: lower and upper ends, (n, m).

        Rosenblatt's transform: a coordinate's cell is $[F(y−), F(y))$ of its conditional law, given the
        record and the coordinates before it. A uniform point of each cell is then uniform on (0, 1),
        independently of all the others, if and only if the reports have the law that is claimed
        (of many coordinates, some may stand for all). Ends may lie beyond 1: they count modulo 1.

        Arguments:
            reports: As a curator reads them: unit coordinates (n, d), or supported codes (n, w).
            x: The records (n, …) that they are of.
            rng: Of the audit: which coordinates stand for all.
        """

    def support(self, reports: NDArray[Any]) -> NDArray[np.int32]:
        """The codes (n, w) that each report supports, padded with −1, where records are codes."""
        return np.asarray(reports, np.int32).reshape(len(reports), -1)

    def impossible(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Find the reports (n, …), as a curator reads them, that no record can have."""
        return ~np.isfinite(reports).all(axis=1)

    def to_grid(self, y: Array) -> Array:
        """The possible reports nearest to `y`: undoes the roundings of units, printing, and reading."""
        return y

    def log_ratio(self, reports: NDArray[Any], x: NDArray[Any], other: NDArray[Any]) -> Array:
        """$\\ln f(y | x) / f(y | x′)$ of reports as a curator reads them."""
        return self.log_likelihood(reports, x) - self.log_likelihood(reports, other)

    @property
    def report_law(self) -> ReportLaw | None:
        """Overlap of reports' laws, by which shuffled ones are accounted; None where none is known."""
        return None

    def gaussian_mu(self, domain: Domain) -> float | None:
        """The promised μ of Gaussian differential privacy (Dong, Roth, Su 2022); None if ε is pure.

        Where δ is far below one over the draws, an audit cannot count the events that ε is about, but
        it can still tell by how much the laws of two records lie apart.
        """
        return None

    def possible(self, y: NDArray[Any], domain: Domain | None = None) -> NDArray[np.bool_]:
        """Find the reports (n, d), or supports (n, w) of codes, that a device can have sent, shape (n,).

        Not what no record of `domain` leads to with probability $2^{−64}$ or more. What is left bounds
        the influence of any one report, whoever made it: under pure ε its likelihoods of two records
        differ by a factor of at most $e^ε$.
        """
        return ~self.impossible(y)

    @property
    @abstractmethod
    def bias(self) -> float:
        """Bias of the debiased report (of a coordinate, or of a category's indicator)."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the debiased report (of a coordinate, or of a rare category's indicator)."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: `kind` and the dataclass fields; parts that are mechanisms likewise."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"kind": self.kind} | {
            name: value.to_dict() if isinstance(value, Mechanism) else value
            for name, value in values.items()
        }


def mechanism_kind(kind: object) -> type[Mechanism]:
    """The class of a kind.

    Examples:
        >>> from privot.mechanisms import Laplace
        >>> mechanism_kind("laplace") is Laplace
        True
    """
    if not isinstance(kind, str) or kind not in _KINDS:
        raise PrivotError(f"mechanism kind {kind!r} is unknown: use one of {', '.join(_KINDS)}")
    return _KINDS[kind]


def mechanism_kinds(column: Column | None = None) -> dict[str, type[Mechanism]]:
    """All kinds that are known, or those for a column, by name.

    Examples:
        >>> from privot.schema import BooleanColumn
        >>> "randomized_response" in mechanism_kinds(BooleanColumn(kind="boolean"))
        True
    """
    return {k: cls for k, cls in _KINDS.items() if column is None or not cls.unfit(column)}


def mechanism_from_dict(description: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism that `to_dict` described.

    Examples:
        >>> from privot.mechanisms import Laplace
        >>> mechanism_from_dict(Laplace(scale=1.0, grid=2.0**-10).to_dict()).scale
        1.0
    """
    cls = mechanism_kind(description.get("kind"))
    values = {name: value for name, value in description.items() if name != "kind"}
    expected = {f.name for f in fields(cls)}
    if values.keys() != expected:
        raise PrivotError(
            f"mechanism {cls.kind!r} has fields {sorted(values)}: give exactly {sorted(expected)}"
        )
    parts = {n: mechanism_from_dict(v) if isinstance(v, Mapping) else v for n, v in values.items()}
    return cls(**parts)


def require_codes(name: str, codes: NDArray[Any], num_codes: int) -> NDArray[np.int64]:
    """Integer codes as int64, or a refusal that never tells the code itself (it is private)."""
    codes = np.asarray(codes)
    if codes.dtype.kind not in "iu":
        raise PrivotError(f"{name} has type {codes.dtype}: give integer codes 0 … {num_codes - 1}")
    if codes.size and (codes.min() < 0 or codes.max() >= num_codes):
        raise PrivotError(f"{name} has a code outside 0 … {num_codes - 1}: encode by the schema")
    return codes.astype(np.int64, copy=False)


PEOPLE = 100_000
# s and κ, by coordinates.
_PRIOR = {1: 0.3, 2: 0.3, 3: 0.15}
_VARIANCE_FACTOR = {1: 3.0, 2: 6.0, 3: 6.0}
_WAVES = {1: 256, 2: 48, 3: 16}  # a coordinate


def planned_error(mechanism: Mechanism, domain: Domain, people: int = PEOPLE) -> float:
    r"""The error in unit coordinates (of a curve, in halves of its length); NaN beyond three of them.

    Of people $x$ in $[−1, 1]^d$, what reports tell of a wave $E \cos ⟨ω, x⟩$ is dampened: a mechanism
    keeps the share $g(ω)$ of it (its `attenuation`), so that n reports tell the wave up to a variance
    of about $κ / (2 n g(ω)^2)$, or it is known no better than before, which we take to be $s/(1 +
    ‖ω‖^2)$, as of people who live in towns: s = .3, and half of it in space. In the dual Sobolev norm,
    which for small differences of densities is the Wasserstein distance,

    $$ \mathrm{error}^2 = \sum_ω \min\Big( \frac{s}{1 + ‖ω‖^2}, \frac{κ}{2 n g(ω)^2} \Big)
       \frac1{‖ω‖^2} $$

    over the waves $ω ∈ \frac π2 ℤ_{≥0}^d$, ω ≠ 0, of the box.

    **κ** is what a fit pays for not knowing which waves to believe: 1 of the best that is linear, and
    of `privot.fit` on public synthetic people (clusters and filaments, `python -m studies
    reports.windows`) 6 in the plane and in space, where W₂ is meant, and 3 of numbers, where W₁ is: the
    error of a former fit up to 20 % in the plane, from ε = 1 to 8 and 10⁴ to 2·10⁵ people, and up to 40
    % elsewhere. Today's is as near by windows in the plane, and nearer elsewhere
    (docs/results/best_report.md).

    >>> from privot.mechanisms import Laplace, Window
    >>> from privot.schema import Box
    >>> place = Box((0.0, 0.0), (1.0, 1.0))
    >>> laplace, window = Laplace.calibrate(place, 4.0), Window.for_domain(place, 4.0)
    >>> planned_error(window, place) < planned_error(laplace, place) / 2
    True
    """
    dimension = 1 if domain.area == "curve" else domain.dimension
    if dimension not in _WAVES:
        return math.nan
    waves = _waves(dimension)
    share = mechanism.attenuation(_seen(waves, mechanism, domain))
    square = (waves**2).sum(axis=1)
    known = _VARIANCE_FACTOR[dimension] / (2 * people * np.maximum(share**2, 1e-30))
    return math.sqrt(float((np.minimum(_PRIOR[dimension] / (1 + square), known) / square).sum()))


def _waves(dimension: int) -> Array:
    axis = np.arange(_WAVES[dimension]) * math.pi / 2
    grid = np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1)
    return grid.reshape(-1, dimension)[1:]


def _seen(waves: Array, mechanism: Mechanism, domain: Domain) -> Array:
    """Waves in the coordinates of reports: noise is added to a curve's points, in all of them."""
    line = mechanism.report_domain(domain).dimension
    if waves.shape[1] == line:
        return waves
    half = float(domain.unit.diameter(2)) / 2
    return np.pad(waves / half, ((0, 0), (0, line - waves.shape[1])))

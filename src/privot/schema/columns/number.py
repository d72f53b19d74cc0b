"""Base of numbers and dates, which lie in an interval, or in public bins of it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError
from privot.schema.columns.alphabet import DEFAULT_BINS, Bins, Codes
from privot.schema.columns.column import CodedColumn, PointColumn
from privot.schema.domains import Array, Box, from_unit

_FAR = 1000.0  # widths of the interval that made-up numbers leave


VIEWS = 8
_EQUAL = VIEWS // 2  # codings of equal bins on a linear scale; the others are geometric
_EDGES = 10  # of a geometric coding, between the bounds
_DIGITS = 2  # of edges, beyond the first of their bins' width
# Ratios of distances, and by what power of them less than the whole the first one is.
_BOUNDS = ((2.0, 0.33), (3.0, 0.6))
_ZERO = ((3.0, 0.33), (4.0, 0.75))


def later_bins(log: bool) -> int:
    """Return the number of equal bins that all codings of equal bins together are cut from."""
    return DEFAULT_BINS * (VIEWS if log else _EQUAL)


def spread(alphabet: Bins, fine: Sequence[float], log: bool, zero: bool) -> tuple[Bins, ...]:
    """The codings of a number in ten equal bins; the first is that alphabet.

    Joint reports ask a number that declares no bins in eight **codings** of 10 to 12 bins, by public
    coins (`privot.randomizer.reports.joint`). The first is its alphabet, ten equal bins. Three more are
    equal bins that begin a quarter, a half and three quarters of a bin later, so together they have the
    resolution of forty. Four are geometric, with edges at distances $s, s/r, s/r^2, …$ from

    - the low bound, with r = 2 and 3, and the high bound, with r = 2 and 3; or
    - where 0 lies strictly within the bounds: the low and the high bound with r = 2, and 0, on both
      sides, with r = 3 and 4,

    $s$ a little less than what there is, each by another share, so that edges of different codings do
    not meet. They find what equal bins cannot: a mass at a bound or at 0, and a distribution a hundred
    times narrower than its bounds. Of integers, these bounds, or 0, are a bin by themselves.

    On a log scale, all eight have bins equal in ln x, each an eighth of a bin later than the one
    before.

    A number's **atoms** are the bins of the coarsest partition that refines all its codings: each
    coding's bins are unions of atoms. Some 80 of them are known from people who each name one of ten.

    Privacy review: functions of the schema alone. Every coding is reported with the whole ε.

    Arguments:
        alphabet: Ten equal bins.
        fine: Edges of `later_bins` equal bins, or of as many as there are integers.
        log: Whether bins are equal in ln x.
        zero: Whether 0 is a number like no other, if it lies within the bounds.

    Examples:
        >>> tens = [10.0 * k for k in range(11)]
        >>> fine = [2.5 * k for k in range(41)]
        >>> codings = spread(Bins(tuple(tens)), fine, log=False, zero=True)
        >>> codings[1].edges
        (0.0, 2.5, 12.5, 22.5, 32.5, 42.5, 52.5, 62.5, 72.5, 82.5, 92.5, 100.0)
        >>> codings[4].edges
        (0.0, 0.155, 0.311, 0.622, 1.243, 2.49, 4.97, 9.94, 19.89, 39.8, 79.6, 100.0)
        >>> refine(codings)[0].num_bins
        80
    """
    made = list(_equal(fine, VIEWS if log else _EQUAL))
    if not log:
        made += _geometric(alphabet, zero)
    return (alphabet, *(_coding(alphabet, edges) for edges in made))


def _equal(fine: Sequence[float], number: int) -> Iterator[list[float]]:
    """Edges of equal bins that begin later, a share of a bin each."""
    last = len(fine) - 1
    for later in range(1, number):
        places = range(later, number * DEFAULT_BINS, number)
        yield [fine[place * last // (number * DEFAULT_BINS)] for place in places]


def _geometric(alphabet: Bins, zero: bool) -> Iterator[list[float]]:
    """Edges that lie closer and closer together towards a bound, or 0."""
    low, high = alphabet.edges[0], alphabet.edges[-1]
    within = zero and low < 0 < high - alphabet.integer
    for ratio, less in _BOUNDS[:1] if within else _BOUNDS:
        steps = _distances(high - low, ratio, less, alphabet.integer)
        yield [low + 1.0] * alphabet.integer + [low + step for step in steps]
        yield [high - 1.0] * alphabet.integer + [high - step for step in steps]
    for ratio, less in _ZERO if within else ():
        steps = _distances(max(-low, high), ratio, less, alphabet.integer)
        both = [end for step in steps for end in (step, -step) if low < end < high]
        yield [0.0, 1.0][: 1 + alphabet.integer] + both[: _EDGES - 1]


def _distances(most: float, ratio: float, less: float, integer: bool) -> list[float]:
    """Distances of edges from where they lie closest; those of integers reach 1 at the last."""
    if integer:
        ratio = min(ratio, most ** (1 / (_EDGES - 1 + less)))
    return [most / ratio ** (place + less) for place in range(_EDGES)]


def _coding(alphabet: Bins, inner: Iterable[float]) -> Bins:
    """Bins of some edges within the bounds, rounded to what is worth writing."""
    low, high = alphabet.edges[0], alphabet.edges[-1]
    edges = sorted({low, high, *(edge for edge in inner if low < edge < high)})
    if alphabet.integer:
        rounded = [float(round(edge)) for edge in edges]
    else:
        widths = [above - below for below, above in pairwise(edges)]
        narrow = [min(pair) for pair in pairwise(widths)]
        places = [_DIGITS - math.floor(math.log10(width)) for width in narrow]
        rounded = [round(edge, place) for edge, place in zip(edges[1:-1], places, strict=True)]
    retained = [low, *sorted({edge for edge in rounded if low < edge < high}), high]
    if alphabet.integer:
        retained = without_empty(retained, alphabet.spikes)
    return Bins(tuple(retained), alphabet.spikes, alphabet.integer, alphabet.nullable)


def refine(codings: Sequence[Bins]) -> tuple[Bins, Codes]:
    """The atoms of some bins with the same spikes, and their code (c, a) in each of them.

    Examples:
        >>> atoms, codes = refine([Bins((0.0, 4.0, 8.0)), Bins((0.0, 2.0, 6.0, 8.0))])
        >>> atoms.edges
        (0.0, 2.0, 4.0, 6.0, 8.0)
        >>> codes.tolist()
        [[0, 0, 1, 1], [0, 1, 1, 2]]
    """
    first = codings[0]
    edges = sorted({edge for bins in codings for edge in bins.edges})
    if first.integer:
        edges = without_empty(edges, first.spikes)
    atoms = Bins(tuple(edges), first.spikes, first.integer, first.nullable)
    others = np.arange(atoms.size - atoms.num_bins)  # spikes, and the missing value
    of_bins = [np.searchsorted(bins.edges, edges[:-1], side="right") - 1 for bins in codings]
    of_others = [bins.num_bins + others for bins in codings]
    return atoms, np.hstack([np.stack(of_bins), np.stack(of_others)])


def without_empty(edges: Sequence[float], spikes: Sequence[float]) -> list[float]:
    """Edges of integers, without those after which there are only spikes up to the next.

    Where there are only spikes up to the first of them, that is left out.
    """
    retained = [edges[-1]]
    for low in reversed(edges[:-1]):
        if retained[-1] - low > sum(low <= spike < retained[-1] for spike in spikes):
            retained.append(low)
    retained[-1] = edges[0]
    return retained[::-1]


def decode_far(bins: Bins, codes: Codes, rng: np.random.Generator) -> Array:
    """Numbers of codes (n,) of bins; half of those of an outer bin lie far beyond the bounds."""
    outside = rng.random(len(codes)) < 0.5
    numbers = bins.decode(codes, rng)
    ends = np.array([bins.edges[0], bins.edges[-1]])
    for end, code, beyond in zip(ends, bins.encode(ends), (-_FAR, _FAR), strict=True):
        far = end + beyond * (ends[1] - ends[0])
        numbers = np.where(outside & (codes == code), far, numbers)
    return numbers


_MAX_STEPS = 2**48
_EXTRA_DECIMALS = 3  # decimals more of what lies between steps
_STEP_DECIMALS = 6  # decimals of a step: values off by less lie on it


@dataclass(frozen=True)
class Steps:
    """Numbers $o + k s$.

    Prices to the cent, doses to half a gram: values are $x = o + k s$ with whole numbers k, and the
    column is one of integers then, as a date is one of days. Bins hold whole steps, and what is written
    is the decimal that a person would write.

    Arguments:
        origin: The number o, at step 0.
        size: Of a step, s.
        digits: Decimals that such numbers have.

    Examples:
        >>> cents = Steps.to_decimals(2)
        >>> cents.count(np.array([0.07, 1.28])).round().tolist()
        [7.0, 128.0]
        >>> cents.value(np.array([7.0, 30.0])).tolist()
        [0.07, 0.3]
    """

    origin: float
    size: float
    digits: int

    @classmethod
    def to_decimals(cls, decimals: int) -> Steps:
        """Numbers of some decimals."""
        return cls(0.0, 10.0**-decimals, decimals)

    @classmethod
    def through(cls, low: float, size: float) -> Steps:
        """Numbers that are whole steps from `low`; 0 is step 0 where it is one of them."""
        digits = max(_decimals(low), _decimals(size))
        origin = round(low - size * math.floor(round(low / size, _STEP_DECIMALS)), digits)
        return cls(origin, size, digits)

    def count(self, values: Array) -> Array:
        """Steps of values, not rounded."""
        return np.asarray((values - self.origin) / self.size)

    def value(self, counts: Array) -> Array:
        """Values of steps, rounded to their decimals."""
        return np.asarray(np.round(self.origin + counts * self.size, self.digits))

    def between(self, counts: Array) -> Array:
        """Values of counts that need not be whole: means, or centers of bins."""
        return np.asarray(np.round(self.origin + counts * self.size, self.digits + _EXTRA_DECIMALS))

    def place(self, value: float) -> float:
        """Return the place of a value among the steps; on one, if it is off by a rounding."""
        return round((value - self.origin) / self.size, _STEP_DECIMALS)

    def exactly(self, value: float, what: str) -> float:
        """The whole step that a declared value is.

        Raises:
            PrivotError: if it is none, or more than can be counted.
        """
        count = self.place(value)
        if count != round(count):
            raise PrivotError(
                f"{what} {value:.15g} lies between the values that occur, which are {self.size:.15g} "
                f"apart: correct it, or the decimals or step"
            )
        if abs(count) > _MAX_STEPS:
            raise PrivotError(
                f"{what} {value:.15g} has too many steps of {self.size:.15g}: give larger ones"
            )
        return count


def _decimals(number: float) -> int:
    """Count the decimals that a number is written with.

    >>> [_decimals(x) for x in (100.0, 0.25, 1e-6)]
    [0, 2, 6]
    """
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(0, -int(exponent))


_QUANTILE_MARGIN = 0.2  # of a bin's mass, to either side of a quantile
_TAIL, _MIN_BINS_WITH_TAILS = 0.01, 6


def equal_mass(
    values: Array, num_bins: int, integer: bool, round_between: Callable[[float, float], float]
) -> tuple[list[float], list[float]]:
    """Inner edges and spikes of about so many codes.

    Of values drawn from a model, the ones that more people share than a bin should hold become
    **spikes**; the rest is cut at its quantiles, each moved to the roundest number within a fifth of a
    bin's mass of it, since people read them. The two outer bins reach to the bounds, which may be far:
    they hold a hundredth each, or less, so that tails are distinguished from what they are the tails
    of, and correlations from tails.

    **Privacy review.** A function of a model's draws: whatever is learned from private reports is as
    private as they are, and so are bins made of it. It must not be used on raw values: bins would tell
    of them.

    Arguments:
        values: Drawn from a model (n,), none missing.
        num_bins: Codes wanted, two at least.
        integer: Whether they are integers; then an edge is the first one of its bin.
        round_between: The roundest number of an interval.

    Examples:
        >>> hours = np.concatenate([np.full(500, 40.0), np.arange(1, 100), np.arange(20, 60)])
        >>> equal_mass(hours, 5, True, roundest)
        ([30.0, 45.0, 70.0], [40.0])
    """
    distinct, counts = np.unique(values, return_counts=True)
    spikes = distinct[counts * num_bins > len(values)]
    rest = np.sort(values[~np.isin(values, spikes)])
    num_rest = max(2, num_bins - len(spikes))
    edges: list[float] = []
    for level, mass in _levels(num_rest) if len(rest) else ():
        low, high = np.quantile(
            rest, [level - _QUANTILE_MARGIN * mass, level + _QUANTILE_MARGIN * mass]
        )
        edge = round_between(float(low), float(high)) if low < high else float(low)
        edge = math.ceil(edge) if integer else edge
        last = edges[-1] if edges else -math.inf
        # Between the bounds, and with a value of its own on either side.
        if max(last, rest[0]) < edge <= rest[-1] and ((rest >= last) & (rest < edge)).any():
            edges.append(float(edge))
    return edges, [float(spike) for spike in spikes]


def _levels(num_bins: int) -> list[tuple[float, float]]:
    """Shares of people below every inner edge, and the mass of the bin beside it."""
    tails = 2 * (num_bins >= _MIN_BINS_WITH_TAILS)
    each = 1 / (num_bins - tails)
    inner = [(place * each, each) for place in range(1, num_bins - tails)]
    return [(_TAIL, _TAIL), *inner, (1 - _TAIL, _TAIL)] if tails else inner


def roundest(low: float, high: float) -> float:
    """The number of fewest digits from `low` to `high`, the nearest to their middle of several.

    Examples:
        >>> [roundest(0.43, 0.58), roundest(1180.0, 1240.0), roundest(-3.1, 2.0)]
        [0.5, 1200.0, 0.0]
    """
    if low <= 0 <= high:
        return 0.0
    middle = (low + high) / 2
    step = 10.0 ** math.floor(math.log10(max(abs(low), abs(high))))
    while True:
        for part in (1.0, 2.0, 5.0):  # steps of 10, 5 and 2
            found = round(middle / step * part) * (step / part)
            if low <= found <= high:
                return float(f"{found:.15g}")
        step /= 10
        if step < (high - low) * 1e-3 or step == 0:
            return middle


class NumberColumn(PointColumn, CodedColumn):
    """A column whose values are numbers between two bounds, whatever they are in a table: dates, too."""

    is_number: ClassVar[bool] = True
    bounds: tuple[float | str, float | str]
    bins: object

    @property
    @abstractmethod
    def domain(self) -> Box:
        """The interval of the bounds."""

    @property
    @abstractmethod
    def alphabet(self) -> Bins:
        """Bins, spikes, and the missing value."""

    @cached_property
    def codings(self) -> tuple[Bins, ...]:
        """See `CodedColumn`; several where no bins are declared, and not every integer has its own."""
        alphabet, log = self.alphabet, self.on_log_scale
        values = alphabet.edges[-1] - alphabet.edges[0] if alphabet.integer else math.inf
        if self.bins is not None or alphabet.num_bins == values:
            return (alphabet,)
        fine = self.equal_bins(int(min(values, later_bins(log))))
        return spread(alphabet, fine, log, zero=self.step_seconds is None)

    @property
    def on_log_scale(self) -> bool:
        """True if its equal bins are equal in ln x."""
        return False

    @cached_property
    def atoms(self) -> tuple[Bins, Codes]:
        """See `CodedColumn`."""
        return refine(self.codings)

    @property
    def declares_codes(self) -> bool:
        """True if bins or spikes are declared."""
        return self.bins is not None or bool(self.alphabet.spikes)

    @property
    @abstractmethod
    def counted_in(self) -> object:
        """Unit that its numbers count: two columns of one unit mean the same by a number."""

    @abstractmethod
    def equal_bins(self, bins: int | None) -> tuple[float, ...]:
        """Edges, in its numbers, of so many equal bins over the bounds; as many as it likes if None."""

    @property
    def step_seconds(self) -> int | None:
        """Seconds in one of its numbers, which count from 1970; None of numbers that are no time."""
        return None

    @property
    def value_step(self) -> float:
        """Distance of its values, as `in_values` has them; 0 where any number occurs."""
        return float(self.alphabet.integer)

    @property
    def step_program(self) -> dict[str, Any]:
        """Return a device's program to count its numbers."""
        return {"seconds": self.step_seconds}

    def code_program(self, name: str, codings: Sequence[Any]) -> dict[str, Any]:
        """See `Column`."""
        edges = [list(bins.edges) for bins in codings]
        how: dict[str, Any] = {"take": "bin", "columns": [name], "edges": edges}
        how |= {"spikes": list(self.alphabet.spikes), "integer": self.alphabet.integer}
        return how | {"nullable": self.nullable} | self.step_program

    def point_program(self, name: str) -> dict[str, Any] | None:
        """See `Column`."""
        how = super().point_program(name)
        return how and how | self.step_program

    def common_values(self, name: str, others: Sequence[CodedColumn]) -> dict[str, pa.Array]:
        """See `CodedColumn`: all edges and spikes of all, and what lies between them."""
        columns = [self, *(cast("NumberColumn", other) for other in others)]
        bins = [column.atoms[0] for column in columns]
        if len({(column.counted_in, column.alphabet.integer) for column in columns}) > 1:
            raise PrivotError(
                f"column {name!r} holds integers in one release and numbers in another, or counts them "
                "in other steps: fit the releases apart"
            )
        cuts = np.unique([value for each in bins for value in (*each.edges, *each.spikes)])
        numbers = np.unique([*cuts, *(cuts[1:] + cuts[:-1]) / 2])
        if self.alphabet.integer:
            near = np.concatenate([cuts - 1, cuts, cuts + 1])
            numbers = np.unique(near[(near >= cuts[0]) & (near < cuts[-1])])
        return {name: self._make_up(np.append(numbers, [np.nan] * self.nullable))}

    def find_code(self, name: str, value: object) -> int:
        """See `CodedColumn`; a number or a date is in the bin, or the spike, that holds it."""
        if value is None or value in self.labels:
            return super().find_code(name, value)
        number = self._number_of(value)
        if number is None:
            return super().find_code(name, value)
        low, high = self.bounds
        if not self.domain.lower[0] <= number <= self.domain.upper[0]:
            raise PrivotError(
                f"where gives column {name!r} the value {value!r}: its bounds are {low} and {high}"
            )
        return int(self.alphabet.encode(np.array([number]))[0])

    def find_codes(self, name: str, value: object) -> list[int]:
        """See `CodedColumn`; a range `"30..40"` has the bins and spikes that it meets."""
        if not isinstance(value, str) or ".." not in value or value in self.labels:
            return super().find_codes(name, value)
        low, high = (self._number_of(end) for end in value.split("..", 1))
        bins = self.alphabet
        if (
            low is None
            or high is None
            or low > min(high, self.domain.upper[0])
            or high < bins.edges[0]
        ):
            raise PrivotError(
                f"where gives column {name!r} the range {value!r}: write LOW..HIGH, within the bounds "
                f"{self.bounds[0]} and {self.bounds[1]}"
            )
        below, above = np.array(bins.edges[:-1]), np.array(bins.edges[1:])
        met = np.flatnonzero((below <= high) & (above - bins.integer >= low)).tolist()
        return met + [bins.num_bins + i for i, s in enumerate(bins.spikes) if low <= s <= high]

    @abstractmethod
    def _number_of(self, value: object) -> float | None:
        """The number that a value, perhaps in words, says; None if it says none."""

    @abstractmethod
    def round_between(self, low: float, high: float) -> float:
        """Return the roundest of its numbers from `low` to `high`, both included."""

    @abstractmethod
    def _write(self, numbers: Array) -> pa.Array:
        """Numbers as the table would hold them, NaN as null."""

    @abstractmethod
    def _make_up(self, numbers: Array) -> pa.Array:
        """Numbers, however large and whether rounded or not, as a table could hold them."""

    def encode_points(self, name: str, table: pa.Table) -> Array:
        """See `PointColumn`."""
        return self.accept(name, table)[:, None]

    def _write_points(self, name: str, points: Array) -> dict[str, pa.Array]:
        numbers = points[:, 0]
        return {name: self._write(np.rint(numbers) if self.alphabet.integer else numbers)}

    def make_up_points(self, name: str, units: Array) -> dict[str, pa.Array]:
        """See `PointColumn`."""
        return {name: self._make_up(from_unit(self.domain, units)[:, 0])}

    def refined(self, name: str, drawn: pa.Table, num_codes: int, rarest: float = 0.0) -> Self:
        """See `CodedColumn`; whole numbers that are no more than codes have a code each."""
        bins, numbers = self.alphabet, self.read(name, drawn)[0]
        numbers = numbers[~np.isnan(numbers)]
        if not len(numbers):
            return self
        fields, values = self.model_dump(), bins.edges[-1] - bins.edges[0]
        if not bins.integer or values > num_codes:
            return self.model_validate(fields | self._bins_of(numbers, num_codes))
        if bins.num_bins == values:
            return self
        none = {"spikes": ()} if "spikes" in fields else {}  # dates have none
        return self.model_validate(fields | {"bins": int(values)} | none)

    @abstractmethod
    def _bins_of(self, numbers: Array, num_codes: int) -> dict[str, object]:
        """Fields that declare bins of equal mass, of numbers drawn from a model."""

    def encode_codes(self, name: str, table: pa.Table) -> Codes:
        """See `CodedColumn`; what lies beyond the bounds is in an outer bin."""
        return self.alphabet.encode(self.accept(name, table))

    def encode_codings(self, name: str, table: pa.Table) -> Codes:
        """See `CodedColumn`; by the atoms, however many codings there are."""
        atoms, codes = self.atoms
        return codes[:, atoms.encode(self.accept(name, table))]

    def decode_codes(
        self, name: str, codes: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`."""
        return {name: self._write(self.alphabet.decode(codes, rng))}

    def decode_atoms(
        self, name: str, atoms: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`."""
        return {name: self._write(self.atoms[0].decode(atoms, rng))}

    def make_up_codes(
        self, name: str, coding: Any, codes: Codes, rng: np.random.Generator
    ) -> dict[str, pa.Array]:
        """See `CodedColumn`: half of an outer bin's lie far beyond the bounds."""
        return {name: self._make_up(decode_far(coding, codes, rng))}

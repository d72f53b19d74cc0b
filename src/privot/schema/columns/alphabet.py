"""Alphabets: the finitely many codes by which a column of a table is reported; bins and their edges.

A joint report is on the cells of several columns' product, so each column needs codes $0 … K−1$:

- each category has a code, and an optional category (`other`) stands for all unlisted values;
- numbers and dates fall into **public bins** $[e_i, e_{i+1})$, the last one closed. A value that many
  people share exactly ("40 hours") should have a code of its own, a *spike*; otherwise decoded samples
  spread it over its bin;
- a column whose values may be missing has one more code, the last.

Bins are declared or follow from the bounds and from typical numbers (`choose_edges`), never from raw
data: typical numbers are public knowledge, or come from the model of a pilot's reports. Joint reports
may use further alphabets of a number, its codings (`standard_codings`). A report does not distinguish
the values of a bin, so a decoded number is uniform over its bin: over an interval, or over the integers
in it that are no spikes.

Values are encoded (`encode`) on the device; an alphabet stores no raw value.
"""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import MOST_CODES, PrivotError, require_count
from privot.schema.domains import Array

Codes = NDArray[np.int64]

MISSING = "(missing)"

NUM_CODINGS = 8
_NUM_EQUAL = NUM_CODINGS // 2  # number of codings with equal bins; the others are geometric
_NUM_EDGES = 10  # number of inner edges of a geometric coding
_DIGITS = 2  # edges are rounded to this many digits more than the first of their bins' width
# (Ratio r, offset) of geometric codings: edges have the distances width · r^−(offset + k), k = 0, 1, …
# Offsets differ, so that edges of different codings do not coincide.
_AT_BOUNDS = ((2.0, 0.33), (3.0, 0.6))
_AT_ZERO = ((3.0, 0.33), (4.0, 0.75))

Scale = Literal["linear", "log"]

DEFAULT_BINS = 10
_EVERY_INTEGER = 16  # largest number of integers that have a bin each by default
_EVEN = 1e-6  # largest difference of a ratio from 1 at which bins are taken as equal
_BEYOND = 0.1  # share of the bins on either side of a typical range

_SUM_ERROR = 4 * sys.float_info.epsilon  # relative rounding error of a sum
_ALL_DIGITS = 17  # number of digits that determine every float
_SAVED_DIGITS = 3  # least number of digits that rounding an edge must save
_LABEL_ERROR = 1 / 200  # largest error of an edge's text, in widths of the narrower bin beside it


class Alphabet(ABC):
    """Base of alphabets: codes with labels; the last code of a nullable column is the missing value."""

    nullable: bool
    spikes: tuple[float, ...] = ()

    @property
    def centers(self) -> Array | None:
        """Number (K,) for each code: the middle of a bin, or a spike; None without numbers."""
        return None

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """Labels (K,) of all codes."""

    @property
    def size(self) -> int:
        """Number of codes K."""
        return len(self.labels)

    @property
    def missing(self) -> int | None:
        """Code of a missing value; None if the column is not nullable."""
        return self.size - 1 if self.nullable else None


@dataclass(frozen=True)
class Categories(Alphabet):
    """Alphabet of named values, and of the missing value if the column is nullable.

    Examples:
        >>> Categories(("red", "blue"), nullable=True).size
        3
    """

    names: tuple[str, ...]  # listed values
    # The listed value that stands for all unlisted ones; None if there is none.
    other: str | None = None
    nullable: bool = False  # whether a value may be missing

    def __post_init__(self) -> None:
        if self.nullable and MISSING in self.names:
            raise PrivotError(
                f"categories have {MISSING!r}, which is the label of a missing value: rename it"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        return self.names + (MISSING,) * self.nullable


@dataclass(frozen=True)
class Bins(Alphabet):
    """Alphabet of bins and spikes of a number, and of the missing value if the column is nullable.

    Arguments:
        edges: Increasing numbers e_0 < … < e_n. The outer two are the bounds; for integers, the last
            is one more than the largest value.
        spikes: Increasing values that each have their own code.
        integer: Whether the numbers, and hence the edges and spikes, are integers.
        nullable: Whether a number may be missing.

    Examples:
        >>> hours = Bins((1.0, 21.0, 41.0, 100.0), spikes=(40.0,), integer=True)
        >>> hours.labels
        ('1 to 20', '21 to 39', '41 to 99', '40')
        >>> hours.encode(np.array([20.0, 40.0, 41.0, 250.0])).tolist()
        [0, 3, 2, 2]

    Raises:
        PrivotError: for edges or spikes out of order, spikes out of bounds, or bins without integers.
    """

    edges: tuple[float, ...]
    spikes: tuple[float, ...] = ()
    integer: bool = False
    nullable: bool = False

    def __post_init__(self) -> None:
        if len(self.edges) < 2 or (np.diff(self.edges) <= 0).any():
            raise PrivotError(f"bins {list(self.edges)} do not increase: give edges in order")
        outside = any(not self.edges[0] <= spike <= self._largest for spike in self.spikes)
        if outside or sorted(set(self.spikes)) != list(self.spikes):
            raise PrivotError(
                f"spikes {list(self.spikes)} must increase and lie within the bounds: "
                "correct them, or the bounds"
            )
        if self.integer:
            fractions = [value for value in (*self.edges, *self.spikes) if value != round(value)]
            if fractions:
                raise PrivotError(f"bins or spikes {fractions} of an integer column: give integers")
            empty = np.flatnonzero(self._integers <= 0)
            if empty.size:
                low, high = self.edges[empty[0]], self.edges[empty[0] + 1] - 1
                raise PrivotError(
                    f"bins leave no integer from {low:g} to {high:g} beside the spikes: "
                    "give a wider bin, or leave the spike out"
                )

    @property
    def _largest(self) -> float:
        """Largest number within the bounds."""
        return self.edges[-1] - 1 if self.integer else self.edges[-1]

    @property
    def num_bins(self) -> int:
        """Number of bins, whose codes precede those of the spikes and of the missing value."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        return self.num_bins + len(self.spikes) + self.nullable

    @cached_property
    def _integers(self) -> NDArray[np.int64]:
        """Number of integers in each bin that are not spikes (n,)."""
        num_spikes = np.histogram(np.asarray(self.spikes), bins=self.edges)[0]
        return np.asarray(np.diff(self.edges) - num_spikes).astype(np.int64)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        if self.integer:
            return self.labels_by(exact_text)
        bins = [f"[{low}, {high})" for low, high in pairwise(short_edges(self.edges))]
        bins[-1] = bins[-1][:-1] + "]"
        return (*bins, *map(exact_text, self.spikes)) + (MISSING,) * self.nullable

    def labels_by(self, text: Callable[[float], str]) -> tuple[str, ...]:
        """Return labels (K,) of integers, written by `text`: each bin by its first and last one."""
        bins = []
        for low, high in pairwise(self.edges):
            first, last = low, high - 1
            while first in self.spikes:
                first += 1
            while last in self.spikes:
                last -= 1
            bins.append(text(first) if first == last else f"{text(first)} to {text(last)}")
        return (*bins, *map(text, self.spikes)) + (MISSING,) * self.nullable

    @cached_property
    def centers(self) -> Array:
        """Middles of the bins, and spikes (K,); NaN for the missing value."""
        middle = (np.asarray(self.edges[:-1]) + np.asarray(self.edges[1:]) - self.integer) / 2
        return np.concatenate([middle, self.spikes, [np.nan] * self.nullable])

    def encode(self, numbers: Array) -> Codes:
        """Return the codes (n,) of numbers (n,), clipped to the bounds; NaN is missing.

        Raises:
            PrivotError: for a missing number of a column that is not nullable.
        """
        absent = np.isnan(numbers)
        if absent.any() and not self.nullable:
            raise PrivotError("a number is missing in a column that is not nullable")
        inside = np.clip(numbers, self.edges[0], self._largest)
        if self.integer:
            np.rint(inside, out=inside)
        codes: Codes = np.searchsorted(self.edges, inside, side="right")
        codes -= 1
        np.minimum(codes, self.num_bins - 1, out=codes)
        for i, spike in enumerate(self.spikes):
            codes[inside == spike] = self.num_bins + i
        codes[absent] = self.size - 1
        return codes

    def decode(self, codes: Codes, rng: np.random.Generator) -> Array:
        """Return numbers (n,), uniform over the bins of codes (n,); NaN if missing."""
        uniform = rng.random(len(codes))
        binned = np.minimum(codes, self.num_bins - 1)
        edges = np.asarray(self.edges)
        if self.integer:
            numbers = edges[binned] + np.floor(uniform * self._integers[binned])
            for spike in self.spikes:
                # `numbers` may count only integers that are no spikes, so skip each spike in turn.
                numbers += (edges[binned] <= spike) & (spike <= numbers)
        else:
            numbers = edges[binned] + uniform * (edges[binned + 1] - edges[binned])
        values = np.concatenate([np.zeros(self.num_bins), self.spikes, [np.nan] * self.nullable])
        return np.where(codes < self.num_bins, numbers, values[codes])


# Codings.


def num_fine_bins(log: bool) -> int:
    """Return the number of equal bins of which the bins of all codings with equal bins are unions."""
    return DEFAULT_BINS * (NUM_CODINGS if log else _NUM_EQUAL)


def standard_codings(
    alphabet: Bins, fine: Sequence[float], log: bool, zero: bool
) -> tuple[Bins, ...]:
    """Return the codings of a number without declared bins; the first is its alphabet of ten equal bins.

    A joint report uses one of eight **codings** of 10 to 12 bins, drawn at random and published
    (`privot.randomizer.reports.joint`). Besides the alphabet, three have equal bins shifted by a
    quarter, a half and three quarters of a bin, so that together they have the resolution of forty
    bins. Four are geometric, with edges at distances $s, s/r, s/r^2, …$ from

    - the low bound, with r = 2 and 3, and the high bound, with r = 2 and 3; or
    - if 0 lies strictly within the bounds: the low and the high bound with r = 2, and 0, on both
      sides, with r = 3 and 4.

    Geometric codings resolve a mass at a bound or at 0, and distributions a hundred times narrower than
    the bounds. An integer that is the bound, or 0, has a bin of its own.

    On a log scale, or with typical numbers (`choose_edges`), all eight codings have the bins that these
    give, shifted by an eighth of a bin each.

    A number's **atoms** are the bins of the coarsest partition that refines all its codings: each
    coding's bins are unions of atoms. There are about 80 atoms.

    Privacy review: codings depend on the schema alone. Every coding is reported with the whole ε.

    Arguments:
        alphabet: Alphabet of ten equal bins.
        fine: Edges of `num_fine_bins` equal bins, or of a bin for each integer if these are fewer.
        log: Whether bins are equal in ln x, or denser around typical numbers.
        zero: Whether edges are dense around 0, if it lies strictly within the bounds.

    Examples:
        >>> tens = [10.0 * k for k in range(11)]
        >>> fine = [2.5 * k for k in range(41)]
        >>> codings = standard_codings(Bins(tuple(tens)), fine, log=False, zero=True)
        >>> codings[1].edges
        (0.0, 2.5, 12.5, 22.5, 32.5, 42.5, 52.5, 62.5, 72.5, 82.5, 92.5, 100.0)
        >>> codings[4].edges
        (0.0, 0.155, 0.311, 0.622, 1.243, 2.49, 4.97, 9.94, 19.89, 39.8, 79.6, 100.0)
        >>> refine(codings)[0].num_bins
        80
    """
    inner_edges = list(_shifted_edges(fine, NUM_CODINGS if log else _NUM_EQUAL))
    if not log:
        inner_edges += _geometric_edges(alphabet, zero)
    return (alphabet, *(_coding(alphabet, edges) for edges in inner_edges))


def _shifted_edges(fine: Sequence[float], number: int) -> Iterator[list[float]]:
    """Yield the inner edges of codings 1 … number − 1, shifted by 1/number of a bin each."""
    last = len(fine) - 1
    for shift in range(1, number):
        places = range(shift, number * DEFAULT_BINS, number)
        yield [fine[place * last // (number * DEFAULT_BINS)] for place in places]


def _geometric_edges(alphabet: Bins, zero: bool) -> Iterator[list[float]]:
    """Yield the inner edges of codings that are dense near a bound, or near 0."""
    low, high = alphabet.edges[0], alphabet.edges[-1]
    zero_inside = zero and low < 0 < high - alphabet.integer
    unit = [1.0] if alphabet.integer else []  # the bound, or 0, has a bin of its own
    for ratio, offset in _AT_BOUNDS[:1] if zero_inside else _AT_BOUNDS:
        distances = unit + _distances(high - low, ratio, offset, alphabet.integer)
        yield [low + distance for distance in distances]
        yield [high - distance for distance in distances]
    for ratio, offset in _AT_ZERO if zero_inside else ():
        distances = _distances(max(-low, high), ratio, offset, alphabet.integer)
        mirrored = [edge for distance in distances for edge in (distance, -distance)]
        inside = [edge for edge in mirrored if low < edge < high]
        yield [0.0, *unit, *inside[: _NUM_EDGES - 1]]


def _distances(width: float, ratio: float, offset: float, integer: bool) -> list[float]:
    """Return ten geometrically decreasing distances; for integers the last is at least 1."""
    if integer:
        ratio = min(ratio, width ** (1 / (_NUM_EDGES - 1 + offset)))
    return [width / ratio ** (place + offset) for place in range(_NUM_EDGES)]


def _coding(alphabet: Bins, inner: Iterable[float]) -> Bins:
    """Return bins with the given inner edges, rounded to few digits, and the alphabet's spikes."""
    low, high = alphabet.edges[0], alphabet.edges[-1]
    edges = sorted({low, high, *(edge for edge in inner if low < edge < high)})
    if alphabet.integer:
        rounded = [float(round(edge)) for edge in edges]
    else:
        rounded = []
        for below, edge, above in zip(edges, edges[1:], edges[2:], strict=False):
            narrower = min(edge - below, above - edge)
            rounded.append(round(edge, _DIGITS - math.floor(math.log10(narrower))))
    retained = [low, *sorted({edge for edge in rounded if low < edge < high}), high]
    if alphabet.integer:
        retained = without_empty(retained, alphabet.spikes)
    return Bins(tuple(retained), alphabet.spikes, alphabet.integer, alphabet.nullable)


def refine(codings: Sequence[Bins]) -> tuple[Bins, Codes]:
    """Return (the atoms of c codings with the same spikes, the codes (c, a) of the a atoms in each).

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
    codes = []
    for bins in codings:
        bin_codes = np.searchsorted(bins.edges, edges[:-1], side="right") - 1
        codes.append(np.concatenate([bin_codes, bins.num_bins + others]))
    return atoms, np.stack(codes)


def choose_edges(
    low: float,
    high: float,
    integer: bool,
    bins: int | None,
    scale: Scale = "linear",
    shift: float = 0.0,
    typical: tuple[float, ...] | None = None,
) -> tuple[float, ...]:
    """Return the increasing edges of equal bins from `low` to `high`, or to `high + 1` for integers.

    On a linear scale, bins of integers differ by at most one in size. On a log scale, bins are equal in
    ln(x + shift), where `low + shift` is positive, and each contains an integer if `integer`. If `bins`
    is None, at most 16 integers have a bin each, other values ten bins.

    With **typical** numbers (a, b) or (a, m, b), the bins of [a, b] are equal on the scale, or grow by a
    constant ratio so that half of them lie below m. Below a and above b lies a tenth of the bins each,
    equal in the logarithm of the distance from the other end of [a, b].

    Examples:
        >>> choose_edges(0, 3, True, None)
        (0.0, 1.0, 2.0, 3.0, 4.0)
        >>> choose_edges(0, 1, False, 4)
        (0.0, 0.25, 0.5, 0.75, 1.0)
        >>> choose_edges(1, 999, True, 6, "log")
        (1.0, 3.0, 10.0, 32.0, 100.0, 316.0, 1000.0)
        >>> choose_edges(0, 60, True, 10, typical=(3, 6.5, 10))
        (0.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 61.0)

    Raises:
        PrivotError: if there are more bins than integers, or than a column may have codes.
    """
    num_integers = int(high) - int(low) + 1
    if bins is None:
        bins = num_integers if integer and num_integers <= _EVERY_INTEGER else DEFAULT_BINS
    most = min(num_integers, MOST_CODES) if integer else MOST_CODES
    require_count("bins", bins, most, f"between {low:g} and {high:g}")
    if scale == "log" or typical:
        return _uneven_edges(low, high, integer, bins, scale == "log", shift, typical)
    if integer:
        return tuple(float(int(low) + i * num_integers // bins) for i in range(bins + 1))
    return tuple(float(edge) for edge in np.linspace(low, high, bins + 1))


def _uneven_edges(
    low: float,
    high: float,
    integer: bool,
    bins: int,
    log: bool,
    shift: float,
    typical: tuple[float, ...] | None,
) -> tuple[float, ...]:
    """Return edges on a log scale, or denser in a typical range; of integers, they are distinct."""
    if typical is None:
        edges = np.geomspace(low + shift, high + integer + shift, bins + 1) - shift
    else:
        knots = np.array([low, *typical[:-1], typical[-1] + integer, high + integer])
        edges = _dense_within(np.log(knots + shift) if log else knots, bins)
        edges = np.exp(edges) - shift if log else edges
    edges[[0, -1]] = low, high + integer  # the bounds exactly, despite the rounding of powers
    if integer:
        place = np.arange(bins + 1)
        # Each edge is at least one more than the edge before it, and leaves room for those after it.
        increasing = np.maximum.accumulate(np.rint(edges) - place) + place
        edges = np.minimum(increasing, high + 1 - place[::-1])
    return tuple(float(edge) for edge in edges)


def _dense_within(knots: Array, bins: int) -> Array:
    """Return edges (bins + 1,), most of them in [a, b], for knots (low, a[, m], b, high)."""
    low, first, *middle, last, high = knots.tolist()
    place, width = np.linspace(0, 1, bins + 1), last - first
    median = middle[0] if middle else (first + last) / 2
    root = (last - median) / (median - first)
    begin, end = _BEYOND * (low < first), 1 - _BEYOND * (last < high)
    inside = np.clip((place - begin) / (end - begin), 0, 1)
    # Widths grow by a factor of root² from the first to the last; the middle is at 1 / (1 + root).
    inside = (
        np.expm1(2 * math.log(root) * inside) / (root**2 - 1) if abs(root - 1) > _EVEN else inside
    )
    below, above = np.clip([begin - place, place - end], 0, None) / _BEYOND
    edges = first + width * (inside - np.expm1(below * math.log1p((first - low) / width)))
    return np.asarray(edges + width * np.expm1(above * math.log1p((high - last) / width)))


def roundest(low: float, high: float) -> float:
    """Return the number from `low` to `high` with the fewest digits, the most central if several have.

    Examples:
        >>> [roundest(0.43, 0.58), roundest(1180.0, 1240.0), roundest(-3.1, 2.0)]
        [0.5, 1200.0, 0.0]
    """
    if low <= 0 <= high:
        return 0.0
    middle = (low + high) / 2
    step = 10.0 ** math.floor(math.log10(max(abs(low), abs(high))))
    while True:
        for parts in (1.0, 2.0, 5.0):  # multiples of the step, its half and its fifth
            rounded = round(middle / step * parts) * (step / parts)
            if low <= rounded <= high:
                return float(f"{rounded:.15g}")
        step /= 10
        if step < (high - low) * 1e-3 or step == 0:
            return middle


def without_empty(edges: Sequence[float], spikes: Sequence[float]) -> list[float]:
    """Return edges of bins of integers, without those that begin a bin with no integer but spikes.

    The first edge remains: if its bin has only spikes, the second edge is dropped.
    """
    retained = [edges[-1]]
    for low in reversed(edges[:-1]):
        if retained[-1] - low > sum(low <= spike < retained[-1] for spike in spikes):
            retained.append(low)
    retained[-1] = edges[0]
    return retained[::-1]


# Edges as text.


def short_edges(edges: Sequence[float]) -> list[str]:
    """Return short texts for two or more increasing edges.

    An edge between bins is written with the fewest digits that are

    - within the rounding error of a sum, if these are at least three digits fewer than its exact text
      has: an edge computed as `0.6900000000000001` is written as 0.69, as it was declared;
    - else within 1/200 of the narrower bin: $10^{4/3} = 21.54434690031884$ is written as 21.5.

    The bounds are written in full. The texts increase as the edges do. They serve as labels only.

    >>> short_edges([0.1, 0.6900000000000001, 1.28, 1.87])
    ['0.1', '0.69', '1.28', '1.87']
    >>> short_edges([10.0, 21.54434690031884, 46.41588833612777, 1000.0])
    ['10', '21.5', '46.4', '1000']
    """
    rounding = _SUM_ERROR * max(abs(edges[0]), abs(edges[-1]))
    texts = []
    for below, edge, above in zip(edges, edges[1:], edges[2:], strict=False):
        tolerance = _LABEL_ERROR * min(edge - below, above - edge)
        text, digits = _shortest(edge, min(rounding, tolerance))
        exact_digits = math.log10(max(abs(edge), rounding) / rounding)
        if digits > exact_digits - _SAVED_DIGITS:
            text, _ = _shortest(edge, tolerance)
        texts.append(text)
    return [exact_text(edges[0]), *texts, exact_text(edges[-1])]


def exact_text(number: float) -> str:
    """Return the shortest text that is read back as exactly this number."""
    return _shortest(number, 0.0)[0]


def _shortest(number: float, error: float) -> tuple[str, int]:
    """Return the number within `error` of `number` that has the fewest digits, as (text, digits)."""
    if abs(number) <= error:
        return "0", 1
    for digits in range(1, _ALL_DIGITS + 1):
        rounded = float(f"{number:.{digits}g}")
        if abs(rounded - number) <= error:
            break
    return f"{rounded:.{max(digits, 15)}g}", digits  # with fewer than 15, 1200 may be 1.2e+03

"""Edges of bins: equal bins over bounds, bins of equal mass in a model's draws, and edges as text."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from privot.core.errors import MOST_CODES, require_count
from privot.schema.domains import Array

Scale = Literal["linear", "log"]

DEFAULT_BINS = 10
_EVEN = 1e-6  # largest difference of a ratio from 1 at which bins are taken as equal
_BEYOND = 0.1  # share of the bins on either side of a typical range
_EVERY_INTEGER = 16  # largest number of integers that have a bin each by default
_QUANTILE_MARGIN = 0.2  # share of a bin's mass by which an edge may miss its quantile
_TAIL, _MIN_BINS_WITH_TAILS = 0.01, 6  # mass of each outer bin; fewest bins that have them

_SUM_ERROR = 4 * sys.float_info.epsilon  # relative rounding error of a sum
_ALL_DIGITS = 17  # number of digits that determine every float
_SAVED_DIGITS = 3  # least number of digits that rounding an edge must save
_LABEL_ERROR = 1 / 200  # largest error of an edge's text, in widths of the narrower bin beside it


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

    If **typical** numbers (a, b) or (a, m, b) are given, the bins of [a, b] are equal, or grow by a constant
    ratio so that half of them lie below m, on the scale. Beyond a and beyond b lies a tenth of the bins each, equal in the
    logarithm of the distance from the other end of [a, b].

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
    """Return edges (bins + 1,), at least 80 % of the bins in the typical range of (low, a[, m], b, high)."""
    low, first, *middle, last, high = knots.tolist()
    place, width = np.linspace(0, 1, bins + 1), last - first
    median = middle[0] if middle else (first + last) / 2
    root = (last - median) / (median - first)
    begin, end = _BEYOND * (low < first), 1 - _BEYOND * (last < high)
    inside = np.clip((place - begin) / (end - begin), 0, 1)
    # Widths grow by a factor of root² from the first to the last; the middle is at 1 / (1 + root).
    inside = np.expm1(2 * math.log(root) * inside) / (root**2 - 1) if abs(root - 1) > _EVEN else inside
    below, above = np.clip([begin - place, place - end], 0, None) / _BEYOND
    edges = first + width * (inside - np.expm1(below * math.log1p((first - low) / width)))
    return np.asarray(edges + width * np.expm1(above * math.log1p((high - last) / width)))


def equal_mass(
    values: Array, num_bins: int, integer: bool, round_between: Callable[[float, float], float]
) -> tuple[list[float], list[float]]:
    """Return (inner edges, spikes) of about `num_bins` codes of equal mass.

    Values that are more frequent than 1/num_bins become **spikes**. The other values are divided at
    quantiles, each moved within a fifth of a bin's mass to the number with the fewest digits, so that
    edges are easy to read. If there are at least six bins, the two outer ones, which reach to the
    bounds, have about a hundredth of the mass each, so that they contain the tails only.

    **Privacy review.** A function of a model's draws (post-processing of private reports), so as private
    as the model. It must not be used on raw values: bins would reveal them.

    Arguments:
        values: Numbers drawn from a model (n,), none missing.
        num_bins: Number of codes, at least two.
        integer: Whether the values are integers; then an edge is the smallest integer of its bin.
        round_between: Function that returns the number of an interval that is easiest to read.

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
    for share, mass in _quantiles(num_rest) if len(rest) else ():
        margin = _QUANTILE_MARGIN * mass
        low, high = np.quantile(rest, [share - margin, share + margin])
        edge = round_between(float(low), float(high)) if low < high else float(low)
        edge = math.ceil(edge) if integer else edge
        last = edges[-1] if edges else -math.inf
        # Every bin must contain a value.
        if max(last, rest[0]) < edge <= rest[-1] and ((rest >= last) & (rest < edge)).any():
            edges.append(float(edge))
    return edges, [float(spike) for spike in spikes]


def _quantiles(num_bins: int) -> list[tuple[float, float]]:
    """Return each inner edge's (share of values below it, mass of the lighter bin beside it)."""
    has_tails = num_bins >= _MIN_BINS_WITH_TAILS
    num_equal = num_bins - 2 if has_tails else num_bins
    mass = 1 / num_equal
    inner = [(place * mass, mass) for place in range(1, num_equal)]
    return [(_TAIL, _TAIL), *inner, (1 - _TAIL, _TAIL)] if has_tails else inner


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

r"""Codings: several public bins of one number, so that its shape is learned at every scale.

Joint reports ask a number that declares no bins in eight **codings** of 10 to 12 bins, by public coins
(`privot.release.reports.questionnaire`). The first is its alphabet, ten equal bins. Three more are equal
bins that begin a quarter, a half and three quarters of a bin later, so together they have the resolution
of forty. Four are geometric, with edges at distances $s, s/r, s/r^2, …$ from

- the low bound, with r = 2 and 3, and the high bound, with r = 2 and 3; or
- where 0 lies strictly within the bounds: the low and the high bound with r = 2, and 0, on both sides,
  with r = 3 and 4,

$s$ a little less than what there is, each by another share, so that edges of different codings do not
meet. They find what equal bins cannot: a mass at a bound or at 0, and a distribution a hundred times
narrower than its bounds. Of integers, these bounds, or 0, are a bin by themselves.

On a log scale, all eight have bins equal in ln x, each an eighth of a bin later than the one before.

A number's **atoms** are the bins of the coarsest partition that refines all its codings: each coding's
bins are unions of atoms. Some 80 of them are known from people who each name one of ten.

Privacy review: functions of the schema alone. Every coding is reported with the whole ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from privot.schema.columns.alphabet import DEFAULT_BINS, Bins, Codes
from privot.schema.domains.domain import Array

_FAR = 1000.0  # widths of the interval that made-up numbers leave


VIEWS = 8
_EQUAL = VIEWS // 2  # codings of equal bins on a linear scale; the others are geometric
_EDGES = 10  # of a geometric coding, between the bounds
_DIGITS = 2  # of edges, beyond the first of their bins' width
# Ratios of distances, and by what power of them less than the whole the first one is.
_BOUNDS = ((2.0, 0.33), (3.0, 0.6))
_ZERO = ((3.0, 0.33), (4.0, 0.75))


def later_bins(log: bool) -> int:
    """How many equal bins are cut for all codings of equal bins together."""
    return DEFAULT_BINS * (VIEWS if log else _EQUAL)


def spread(alphabet: Bins, fine: Sequence[float], log: bool, zero: bool) -> tuple[Bins, ...]:
    """The codings of a number in ten equal bins; the first is that alphabet.

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
    kept = [low, *sorted({edge for edge in rounded if low < edge < high}), high]
    if alphabet.integer:
        kept = without_empty(kept, alphabet.spikes)
    return Bins(tuple(kept), alphabet.spikes, alphabet.integer, alphabet.nullable)


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
    kept = [edges[-1]]
    for low in reversed(edges[:-1]):
        if kept[-1] - low > sum(low <= spike < kept[-1] for spike in spikes):
            kept.append(low)
    kept[-1] = edges[0]
    return kept[::-1]


def decode_far(bins: Bins, codes: Codes, rng: np.random.Generator) -> Array:
    """Numbers of codes (n,) of bins; half of those of an outer bin lie far beyond the bounds."""
    outside = rng.random(len(codes)) < 0.5
    numbers = bins.decode(codes, rng)
    ends = np.array([bins.edges[0], bins.edges[-1]])
    for end, code, beyond in zip(ends, bins.encode(ends), (-_FAR, _FAR), strict=True):
        far = end + beyond * (ends[1] - ends[0])
        numbers = np.where(outside & (codes == code), far, numbers)
    return numbers

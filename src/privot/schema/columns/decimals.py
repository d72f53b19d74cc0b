r"""Numbers in short: the shortest decimals that tell the edges of bins apart.

An edge between bins is written with the fewest digits that are

- off by what sums round away at most, if these are three digits fewer than another number of its size
  would need: what a person declared comes back as it was written, and `0.6900000000000001` is the 0.69
  that it was computed for;
- else off by at most 1/200 of the narrower bin: of $10^{4/3} = 21.54434690031884$ between bins of some
  ten, 21.5 is what one wants to read.

The bounds are written in full. Either way the texts increase as the edges do. They are labels alone:
values are coded by the edges.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

_ROUNDINGS = 4 * sys.float_info.epsilon
_ALL_DIGITS, _FEWER = 17, 3
_SHARE = 1 / 200


def short_edges(edges: Sequence[float]) -> list[str]:
    """Texts of increasing edges, two at least.

    >>> short_edges([0.1, 0.6900000000000001, 1.28, 1.87])
    ['0.1', '0.69', '1.28', '1.87']
    >>> short_edges([10.0, 21.54434690031884, 46.41588833612777, 1000.0])
    ['10', '21.5', '46.4', '1000']
    """
    rounded = _ROUNDINGS * max(abs(edges[0]), abs(edges[-1]))
    texts = []
    for below, edge, above in zip(edges, edges[1:], edges[2:], strict=False):
        loose = _SHARE * min(edge - below, above - edge)
        text, digits = _shortest(edge, min(rounded, loose))
        if digits > math.log10(max(abs(edge), rounded) / rounded) - _FEWER:
            text, _ = _shortest(edge, loose)
        texts.append(text)
    return [exact_text(edges[0]), *texts, exact_text(edges[-1])]


def exact_text(number: float) -> str:
    """All digits that a number has, and no more."""
    return _shortest(number, 0.0)[0]


def _shortest(number: float, error: float) -> tuple[str, int]:
    """The fewest digits that are off by at most `error`, and their number; of what may be 0, none."""
    if abs(number) <= error:
        return "0", -_FEWER
    for digits in range(1, _ALL_DIGITS + 1):
        text = f"{number:.{digits}g}"
        if abs(float(text) - number) <= error:
            break
    return f"{float(text):.{max(digits, 15)}g}", digits

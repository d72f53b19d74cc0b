r"""How a window's report is drawn: from anywhere, or from the window, in integers only.

With m cells in a window of K, and $L = ⌊2^{64} K / (e^ε m + K − m)⌋ + 1$, a 64-bit word below L sends
the report to one of all K cells, uniformly, any other to one of the window, uniformly. So a cell has the
probability $b = L / (2^{64} K)$ outside and $a = b + (1 − L/2^{64}) / m$ inside, and

$$ \frac ab = 1 + \frac{2^{64} − L}{L} \frac Km ≤ 1 + \Big( \frac{e^ε m + K − m}{K} − 1 \Big) \frac Km
   = e^ε. $$

**Missing values** have a window of m cells of their own, so that K includes them; all of them are
written as one symbol, which is cell number `symbol`.

**Privacy review.** A cell of all, an offset of the window of 0, and the word are drawn for every record,
before the record is looked at: draws, rejections and their time know nothing of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privot.mechanisms.samplers.entropy import WORDS, random_words, words_outside
from privot.mechanisms.samplers.exact_rounding import Integers
from privot.mechanisms.windows.cells import Mask, WindowCells
from privot.schema import Array


@dataclass(frozen=True)
class WindowMixture:
    """Reports of cells, at ε.

    Arguments:
        cells: Of records and reports.
        epsilon: ε.
        nullable: Whether records may be missing.
    """

    cells: WindowCells
    epsilon: float
    nullable: bool

    @property
    def symbol(self) -> int:
        """The number that stands for all cells of the missing value."""
        return self.cells.numbers

    @cached_property
    def total(self) -> int:
        """K, cells of the missing value included."""
        return self.cells.count + self.nullable * len(self.cells.window)

    @cached_property
    def words(self) -> tuple[int, int]:
        """How many of the 2^64 words send a report into the window, and anywhere."""
        near = len(self.cells.window)
        anywhere = words_outside(self.epsilon, near, self.total - near, self.total)
        return WORDS - anywhere, anywhere

    @cached_property
    def probabilities(self) -> tuple[float, float]:
        """P(report) for one cell inside the window, and for one outside."""
        near, anywhere = self.words
        outside = anywhere / WORDS / self.total
        return outside + near / WORDS / len(self.cells.window), outside

    @property
    def program(self) -> dict[str, Any]:
        """The integers of the draw, for devices."""
        anywhere = {"nullable": self.nullable, "anywhere": f"{self.words[1]:x}"}
        return {"draw": "window"} | asdict(self.cells) | anywhere

    def report(self, records: Integers, missing: Mask | None) -> Integers:
        """Numbers (n,) of reports, of those of records (n,), some of which may be `missing`."""
        near, far = self.draw(len(records))
        inside = random_words(len(records)) >= np.uint64(self.words[1])
        near += records
        if missing is not None:
            near = np.where(missing, self.symbol, near)
        return np.where(inside, near, far)

    def points(self, numbers: Integers) -> Array:
        """Unit coordinates (n, d) of cells of these numbers, and flags if some may be missing."""
        if not self.nullable:
            return self.cells.units(self.cells.cells(numbers))
        missing = numbers == self.symbol
        points = self.cells.units(self.cells.cells(np.where(missing, 0, numbers)))
        points[missing] = 0.0
        return np.hstack([points, missing[:, None]])

    def draw(self, count: int) -> tuple[Integers, Integers]:
        """What to add to a record's number, and the number of any cell.

        Either is uniform, and they share a word: no report is made of both. Words beyond the last full
        multiple of m K are drawn again.
        """
        near, total = len(self.cells.window), self.total
        words = random_words(count)
        limit = WORDS - WORDS % (near * total)
        if limit < WORDS:
            while (again := np.flatnonzero(words >= np.uint64(limit))).size:
                words[again] = random_words(again.size)
        near_index, far = (
            (words - words // np.uint64(bound) * np.uint64(bound)).view(np.int64)
            for bound in (near, total)
        )
        return self.cells.window.take(near_index), self._numbers(far)

    def _numbers(self, far: Integers) -> Integers:
        """Of the cells that these are the places of, in order; those of the missing value are last."""
        if self._listed is not None:
            return self._listed.take(far, mode="clip")
        return np.minimum(far, self.symbol) if self.nullable else far

    @cached_property
    def _listed(self) -> Integers | None:
        reached = self.cells.reached
        return None if reached is None else np.append(reached, self.symbol)

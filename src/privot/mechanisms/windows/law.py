r"""The law of one window in numbers: what it tells, how far it scatters, and where an audit looks.

With a and b the probabilities of a cell inside and outside, and m cells in a window, a report of a
record x has the mean $a \sum_{W(x)} y + b \sum_{y ∉ W(x)} y = b \sum y + (a − b) m x$, affine in x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from privot.mechanisms.samplers.exact_rounding import Integers
from privot.mechanisms.windows.cells import Mask, WindowCells
from privot.schema import Array


@dataclass(frozen=True)
class WindowLaw:
    """Cells, and the probability of one `inside` a window and of one `outside`."""

    cells: WindowCells
    inside: float
    outside: float

    def kept(self, waves: Array) -> Array:
        r"""$(a − b) \sum_{k ∈ W(0)} e^{i⟨ω, k⟩}$ of waves (k, d), by the integral over the ball.

        It is $(a − b) m$ times $Γ(\tfrac d2 + 1) (2/z)^{d/2} J_{d/2}(z)$, z = ‖ω‖ r.
        """
        half, window = self.cells.dimension / 2, len(self.cells.window)
        radius = (window * math.gamma(half + 1)) ** (0.5 / half) / math.sqrt(math.pi)  # of as many
        reach = radius * 2 / self.cells.steps
        z = np.maximum(np.sqrt((waves**2).sum(axis=1)) * reach, 1e-6)
        ball = math.gamma(half + 1) * (2 / z) ** half * scipy.special.jv(half, z)
        return np.asarray((self.inside - self.outside) * window * ball)

    def variance(self) -> float:
        """Largest variance, over all records, of a coordinate's affine unbiased estimate."""
        cells = self.cells
        excess = self.inside - self.outside
        gain = excess * len(cells.window)  # the slope of the mean
        numbers = np.arange(cells.numbers) if cells.reached is None else cells.reached
        first = numbers // cells.base ** (cells.dimension - 1) - cells.radius - cells.steps / 2
        # It is convex in the record, so largest at an end.
        record = np.array([0.0 if cells.non_negative else -1.0, 1.0]) * cells.steps / 2
        mean = self.outside * first.sum() + gain * record
        second = self.outside * (first**2).sum() + gain * record**2
        second += excess * (cells.offsets[:, 0] ** 2).sum()
        return float(((second - mean**2) / gain**2).max()) * (2 / cells.steps) ** 2

    def probability_cells(
        self, reports: Integers, records: Integers, present: Mask
    ) -> tuple[Array, Array]:
        """Ends (…, d) of the part of (0, 1) of each coordinate, given those before it.

        Numbers of cells are in the order of coordinates, so the cells that begin alike have numbers
        that follow each other, and counting takes two searches.

        Arguments:
            reports: Cells (…, d).
            records: Cells (…, d).
            present: Whether the record is (…), and has a window.
        """
        cells = self.cells
        report, record = cells.number(reports), cells.number(records)
        excess = (self.inside - self.outside) * present

        def mass(low: Integers, high: Integers) -> Array:
            near = np.searchsorted(cells.window, high - record)
            near -= np.searchsorted(cells.window, low - record)
            return self.outside * (cells.rank(high) - cells.rank(low)) + excess * near

        lows, highs = [], []
        for width in cells.base ** np.arange(cells.dimension, 0, -1):
            start, each = report // width * width, width // cells.base
            own = report // each * each
            whole = mass(start, start + width)
            lows.append(mass(start, own) / whole)
            highs.append(mass(start, own + each) / whole)
        return np.stack(lows, axis=-1), np.stack(highs, axis=-1)

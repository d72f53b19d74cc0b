"""The loops of `kernel_entries` and `sweeps` over parts of the rows, one part a thread.

What rows have in common is a sum or a minimum over rows, which each thread forms for its own part.
Problems of fewer than four million pairs are one part: an iteration of theirs takes less time than
waking a thread, and runs in compiled code throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.transport.compiled import in_threads
from privot.transport.sinkhorn import kernel_entries, sweeps
from privot.transport.sinkhorn.sweeps import Pace, Scaled, Swept

_ONE_PART = 2**22

Array = NDArray[Any]


@dataclass(frozen=True)
class RowParts:
    """Which rows each thread works on."""

    parts: tuple[slice, ...]

    @classmethod
    def of(cls, num_rows: int, num_columns: int) -> RowParts:
        """As many parts, as torch has threads, or one."""
        large = num_rows * num_columns >= _ONE_PART
        most = max(1, num_rows // sweeps.FEWEST_ROWS)
        count = min(torch.get_num_threads(), most) if large else 1
        edges = [num_rows * part // count for part in range(count + 1)]
        return cls(tuple(slice(*ends) for ends in pairwise(edges)))

    def shift(self, cost: Array, f: Array, g: Array) -> bool:
        """`kernel_entries.shift`."""
        lowest = np.empty((len(self.parts), len(g)))
        finite = self._each(lambda k, rows: kernel_entries.shift(cost[rows], f[rows], lowest[k]))
        lowest.min(axis=0, out=g)
        return all(finite)

    def fit(self, cost: Array, g: Array, f: Array) -> bool:
        """`kernel_entries.fit_rows`."""
        return all(self._each(lambda _, rows: kernel_entries.fit_rows(cost[rows], g, f[rows])))

    def build(self, cost: Array, f: Array, g: Array, reg: float, kernel: Array) -> None:
        """`kernel_entries.build`."""
        self._each(lambda _, rows: kernel_entries.build(cost[rows], f[rows], g, reg, kernel[rows]))

    def iterate(self, scaled: Scaled, pace: Pace) -> int:
        """`sweeps.iterate`."""
        if len(self.parts) == 1:
            single: int = sweeps.iterate(scaled, pace)
            return single
        kernel, a, b, u, v = scaled
        w, t = np.empty(len(v), kernel.dtype), np.empty((len(self.parts), len(v)), kernel.dtype)
        outcome = -1
        while outcome < 0:
            omega = sweeps.begin(b, v, w, t[0], pace)
            t[1:] = 0

            def work(k: int, rows: slice, omega: float = omega) -> Swept:
                ended: Swept = sweeps.sweep(
                    kernel[rows], a[rows], w, u[rows], t[k], omega, pace.widest
                )
                return ended

            ended = self._each(work)
            swept = Swept(
                sum(part.error for part in ended),
                all(part.inside for part in ended),
                any(part.broken for part in ended),
            )
            outcome = sweeps.finish(b, v, t.sum(axis=0), swept, pace)
        return outcome

    def write_plan(self, scaled: Scaled) -> tuple[float, float]:
        """`sweeps.write_plan`: the rows' and the columns' marginal errors."""
        kernel, a, b, u, v = scaled
        columns = np.zeros((len(self.parts), len(v)))

        def write(k: int, rows: slice) -> float:
            error: float = sweeps.write_plan(
                Scaled(kernel[rows], a[rows], b, u[rows], v), columns[k]
            )
            return error

        return sum(self._each(write)), float(np.abs(columns.sum(axis=0) - b).sum())

    def _each(self, work: Callable[[int, slice], Any]) -> list[Any]:
        return in_threads(lambda k: work(k, self.parts[k]), len(self.parts))

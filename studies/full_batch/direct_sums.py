r"""Direct sums of the Gaussian kernel, leaving out what provably cannot matter.

For targets x and sources y of two coordinates and log-weights h,

$$ s_i = \log \sum_j e^{h_j - ‖x_i - y_j‖_2^2/2} . $$

Both clouds are cut into blocks of neighbors. For a block of targets and a block J of sources, the
distances of their bounding boxes give a lower bound of every $s_i$, $\max_J (\max_{j∈J} h_j -
D_{\max}^2/2)$, and an upper bound of every term, $\max_{j∈J} h_j - D_{\min}^2/2$. Blocks whose terms
stay 40 + log m below the lower bound are skipped: together they change $e^{s_i}$ by less than
$e^{-40}$, relatively. Terms are summed relative to the largest of their row, so nothing overflows.

The cost grows like n·m times the share of pairs that matter, small exactly where λ is small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privot.core.compiled import compiled
from privot.core.errors import PrivotError
from privot.transport.ground import in_threads

Array = NDArray[np.float64]

_BLOCK = 64
_NEGLIGIBLE = 40.0
# Some tens of seconds a product.
_MOST_PAIRS = 5e9
_CHUNKS = 16


class DirectSums:
    """Sums from sources (m, 2), in units of the kernel's standard deviation."""

    def __init__(self, sources: Array) -> None:
        self._order = _in_blocks(sources)
        self._sources = sources[self._order]
        self._boxes = _boxes(self._sources)

    def __call__(self, targets: Array, h: Array) -> tuple[Array, Array]:
        """Log-sums (n,) at targets (n, 2), and means (n, 2) of target − source under the terms.

        Raises:
            PrivotError: So many terms matter that a direct sum would take minutes.
        """
        order, h = _in_blocks(targets), h[self._order]
        targets = targets[order]
        boxes = _boxes(targets)
        tops = np.maximum.reduceat(h, np.arange(0, len(h), _BLOCK))
        floor = np.empty(len(boxes))
        slack = _NEGLIGIBLE + np.log(len(h))
        pairs = _BLOCK**2 * _floors(boxes, self._boxes, tops, slack, floor)
        if pairs > _MOST_PAIRS:
            raise PrivotError(
                f"reg is too small beside the spread of {len(targets)} and {len(h)} points: the "
                f"{pairs:.0e} pairs that matter are out of reach; give a larger reg, or batches"
            )
        sums, gaps = np.empty(len(targets)), np.empty((len(targets), 2))
        edges = np.linspace(0, len(boxes), _CHUNKS + 1).astype(int)
        data = (targets, self._sources, h, boxes, self._boxes, tops, floor)

        def chunk(c: int) -> None:
            _direct(*data, edges[c], edges[c + 1], sums, gaps)

        in_threads(chunk, _CHUNKS, parallel=pairs > 1e6)
        out, out_gaps = np.empty_like(sums), np.empty_like(gaps)
        out[order], out_gaps[order] = sums, gaps
        return out, out_gaps


def _in_blocks(points: Array) -> NDArray[np.int64]:
    """An order in which runs of _BLOCK points are neighbors: strips, then along each strip."""
    n = len(points)
    height = _BLOCK * max(1, round(np.sqrt(n / _BLOCK)))
    strip = np.empty(n, np.int64)
    strip[np.argsort(points[:, 0])] = np.arange(n) // height
    return np.lexsort((points[:, 1], strip))


def _boxes(points: Array) -> Array:
    """Bounding boxes (blocks, 4): lower and upper limits of both coordinates."""
    starts = np.arange(0, len(points), _BLOCK)
    low, high = np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts)
    return np.hstack([low, high])


@compiled
def _distances(a, b):  # type: ignore[no-untyped-def]  # compiled: numba infers types
    """Half of the least and of the largest squared distance between two boxes."""
    least = largest = 0.0
    for c in range(2):
        gap = max(b[c] - a[c + 2], a[c] - b[c + 2], 0.0)
        span = max(b[c + 2] - a[c], a[c + 2] - b[c])
        least += gap * gap / 2
        largest += span * span / 2
    return least, largest


@compiled
def _floors(boxes_x, boxes_y, tops, slack, floor):  # type: ignore[no-untyped-def]  # compiled: numba infers types
    """What terms of each target block must exceed to matter; returns how many pairs do."""
    pairs = 0
    for i in range(len(boxes_x)):
        best = -np.inf
        for j in range(len(boxes_y)):
            best = max(best, tops[j] - _distances(boxes_x[i], boxes_y[j])[1])
        floor[i] = best - slack
        for j in range(len(boxes_y)):
            pairs += tops[j] - _distances(boxes_x[i], boxes_y[j])[0] >= floor[i]
    return pairs


@compiled
def _direct(x, y, h, boxes_x, boxes_y, tops, floor, first, last, sums, gaps):  # type: ignore[no-untyped-def]  # compiled: numba infers types
    kept = np.empty(len(boxes_y), np.int64)
    for block in range(first, last):
        count = 0
        for j in range(len(boxes_y)):
            if tops[j] - _distances(boxes_x[block], boxes_y[j])[0] >= floor[block]:
                kept[count] = j
                count += 1
        for i in range(block * _BLOCK, min(len(x), (block + 1) * _BLOCK)):
            x0, x1 = x[i, 0], x[i, 1]
            top = -np.inf
            for k in range(count):
                for j in range(kept[k] * _BLOCK, min(len(y), (kept[k] + 1) * _BLOCK)):
                    d0, d1 = x0 - y[j, 0], x1 - y[j, 1]
                    top = max(top, h[j] - (d0 * d0 + d1 * d1) / 2)
            total = mean0 = mean1 = 0.0
            for k in range(count):
                for j in range(kept[k] * _BLOCK, min(len(y), (kept[k] + 1) * _BLOCK)):
                    d0, d1 = x0 - y[j, 0], x1 - y[j, 1]
                    score = h[j] - (d0 * d0 + d1 * d1) / 2 - top
                    if score > -_NEGLIGIBLE - 20:
                        term = np.exp(score)
                        total += term
                        mean0 += term * d0
                        mean1 += term * d1
            sums[i] = top + np.log(total)
            gaps[i, 0], gaps[i, 1] = mean0 / total, mean1 / total

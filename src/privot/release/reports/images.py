r"""Noisy images in a release: lists of d numbers of 32 bits, in unit coordinates.

A report is an integer multiple of the mechanism's grid g, $2^{19}$ to $2^{20}$ of which make one unit
of noise (`mechanisms.additive_noise`). A 32-bit float holds every integer below $2^{24}$ exactly, so
numbers up to 16 times the noise are kept to the bit, and larger ones are rounded to an even multiple of
g. Rounding a report is post-processing: no promise changes, all that is stored lies on the grid, and
the likelihood errs by less than the density's own $2^{−19}$. Half the bytes are worth that.

Images are noised some at a time: memory holds the records and the reports, and little else.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privot.mechanisms import Mechanism
from privot.schema.domains.domain import Array

_NUMBERS_AT_ONCE = 2**22


def image_type(dimension: int) -> pa.DataType:
    """The type of a release's column of images."""
    return pa.list_(pa.float32(), dimension)


def image_lists(mechanism: Mechanism, records: Array, reported: np.ndarray) -> pa.Array:
    """Fresh reports of those records (n, d) that are `reported` (n,); null elsewhere."""
    noisy = np.zeros(records.shape, np.float32)
    rows = max(1, _NUMBERS_AT_ONCE // records.shape[1])
    for start in range(0, len(records), rows):
        part = slice(start, start + rows)
        noisy[part][reported[part]] = mechanism.privatize(records[part][reported[part]])
    return pa.FixedSizeListArray.from_arrays(
        pa.array(noisy.reshape(-1)), type=image_type(records.shape[1]), mask=pa.array(~reported)
    )


def image_points(lists: pa.ChunkedArray, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Reports (n, d) as 32-bit floats, 0 where not reported, and who reported (n,)."""
    reported = np.asarray(pc.is_valid(lists).to_numpy())
    points = np.zeros((len(lists), dimension), np.float32)
    flat = [np.asarray(chunk.flatten()) for chunk in lists.chunks]  # skips what is null
    points[reported] = np.concatenate(flat or [points[:0].reshape(-1)]).reshape(-1, dimension)
    return points, reported

r"""Made-up records: raw values of any points and codes, inside the declared limits and far outside.

For audits, which must see what a device does with a value that no limit allows: an encoder that passes
it on unprojected gives a person away, and no draw from a point inside would show it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from privot.schema.columns.alphabet import Bins, Codes
from privot.schema.columns.array import ArrayColumn
from privot.schema.columns.array_values import tensor_array
from privot.schema.columns.kinds import CodedColumn, DatetimeColumn, PointColumn
from privot.schema.columns.values import decode_codes
from privot.schema.domains.domain import Array, from_unit

_FAR = 1000.0  # widths of the interval that its bounds leave
_LAST_SECOND = 9e12  # microseconds since 1970 are 64-bit integers
_UNLISTED = "\uffff unlisted"


def raw_points(column: PointColumn, name: str, units: Array) -> dict[str, pa.Array]:
    """Table columns of points (n, d) in unit coordinates, wherever they lie; rows of NaN are missing."""
    if isinstance(column, ArrayColumn):
        low, high = column.bounds
        raw = (low + high) / 2 + (high - low) / 2 * column.domain.decode(units)
        return {name: tensor_array(raw.reshape(len(raw), *column.shape))}
    points = from_unit(column.domain, units)
    return {
        part: _numbers(column, points[:, j]) for j, part in enumerate(column.table_columns(name))
    }


def raw_codes(
    column: CodedColumn, name: str, codes: Codes, rng: np.random.Generator
) -> dict[str, pa.Array]:
    """Table columns of codes (n,): values inside bins, and half of an outer bin's far outside."""
    alphabet = column.alphabet
    outside = rng.random(len(codes)) < 0.5
    if not isinstance(alphabet, Bins):
        made = decode_codes(column, name, codes, rng)
        if alphabet.other is None:
            return made
        unlisted = outside & (codes == alphabet.names.index(alphabet.other))
        return {name: pa.array(np.where(unlisted, _UNLISTED, made[name].to_pylist()))}
    numbers = alphabet.decode(codes, rng)
    ends = np.array([alphabet.edges[0], alphabet.edges[-1]])
    for end, code, beyond in zip(ends, alphabet.encode(ends), (-_FAR, _FAR), strict=True):
        far = end + beyond * (ends[1] - ends[0])
        numbers = np.where(outside & (codes == code), far, numbers)
    return {name: _numbers(column, numbers)}


def _numbers(column: CodedColumn | PointColumn, numbers: Array) -> pa.Array:
    """Numbers, or the moments they stand for; NaN is missing."""
    absent = np.isnan(numbers)
    if not isinstance(column, DatetimeColumn):
        return pa.array(numbers, mask=absent)
    most = _LAST_SECOND // column.unit
    steps = np.clip(np.rint(np.where(absent, 0.0, numbers)), -most, most).astype(np.int64)
    return pa.array(steps * column.unit, mask=absent).cast(pa.timestamp("s"))

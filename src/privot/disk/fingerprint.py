r"""The fingerprint of a set of records: equal for equal records in any order, and secret.

A keyed hash of a multiset (Clarke, Devadas, van Dijk, Gassend, Suh 2003, *MSet-Add-Hash*): with a
pseudorandom function $F_k$ of one row, here BLAKE2b keyed by the account's secret key,

$$ H_k(M) = F_k\Big(|M|,\ \sum_{x ∈ M} F_k(x) \bmod 2^{256}\Big). $$

A sum does not depend on order, and counts repeated rows. Without $k$ the digests are random: they tell
neither records nor, from one account to another, whether two sets are equal. **Whoever has the key can
ask whether a guessed set is the one that was used**: the digest is a function of raw data, it stays in
the state folder, with the curator.

Rows are compared in single precision, flattened, so that it does not matter whether pixels were divided
by 255 in single or in double precision. One record more or fewer, another scale or another encoding
(of the same table as coordinates of slices and as points of a density) is another set.

References:
    Clarke et al., *Incremental multiset hash functions and their application to memory integrity
    checking* (2003).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.disk.state import secret_key


def fingerprint(parts: Iterable[NDArray[Any]]) -> str:
    """The digest of records (n, …) that come in parts; 64 hexadecimal digits, the curator's."""
    key, total, count = secret_key(), 0, 0
    for part in parts:
        with np.errstate(over="ignore", invalid="ignore"):
            rows = np.ascontiguousarray(part, np.float32).reshape(len(part), -1) + np.float32(0.0)
        data, width = rows.tobytes(), 4 * rows.shape[1]
        for start in range(0, len(data), width):
            row = blake2b(data[start : start + width], key=key, digest_size=32)
            total += int.from_bytes(row.digest(), "little")
        count += len(rows)
    return blake2b(b"%d,%d" % (count, total % 2**256), key=key, digest_size=32).hexdigest()

"""A uniform sample of records from a source that does not fit in memory, in one pass.

Every row gets an independent uniform key, and the rows of the n smallest keys are kept: each set of n
rows is equally likely, whatever the source's order and length.

References:
    Vitter, *Random sampling with a reservoir* (1985); Li, *Reservoir-sampling algorithms of time
    complexity O(n(1 + log(N/n)))* (1994), for keys.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.limits import MOST_ROWS, require_count, require_seed
from privot.tables.batches import RecordBatches


def sample_rows(records: RecordBatches, most: int, seed: int) -> tuple[pa.Table, int]:
    """At most `most` rows, uniformly without replacement, in their order; and how many there are.

    Raises:
        PrivotError: if there are none, or the source cannot be read.
    """
    most = require_count("most", most, MOST_ROWS)
    rng = np.random.default_rng(require_seed(seed))
    held: pa.Table | None = None
    keys = np.zeros(0)
    total, threshold = 0, np.inf
    for _, batch in records.batches():
        drawn = rng.random(batch.num_rows)
        total += batch.num_rows
        near = drawn < threshold
        rows = batch if near.all() else batch.filter(pa.array(near))
        held = rows if held is None else pa.concat_tables([held, rows])
        keys = np.concatenate([keys, drawn[near]])
        if len(keys) > most:
            threshold = np.partition(keys, most)[most]
            kept = keys < threshold
            held, keys = held.filter(pa.array(kept)), keys[kept]
    if held is None:
        raise PrivotError(f"{records.source} has no rows: give at least one record")
    return held.combine_chunks(), total

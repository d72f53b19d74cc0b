"""A reservoir holds a uniform sample, whatever the order of the source."""

import numpy as np
import pyarrow as pa
import pytest

from numbered_people import people
from privot.errors import PrivotError
from privot.tables.batches import TableBatches, sample_rows


def test_few_rows_are_all_kept_in_their_order():
    rows, total = sample_rows(TableBatches(people(0, 500)), 1000, seed=0)
    assert total == 500
    assert rows.equals(people(0, 500))


def test_of_many_each_is_kept_equally_often():
    pieces = [people(1000 * k, 1000 * (k + 1)) for k in range(20)]
    counts = np.zeros(20)
    for seed in range(20):
        rows, total = sample_rows(TableBatches(pieces), 500, seed)
        drawn = rows["person"].to_numpy()
        assert total == 20_000
        assert len(np.unique(drawn)) == 500
        counts += np.bincount((drawn // 1000).astype(int), minlength=20)
    # Hypergeometric, 500 each with standard deviation 22; seeded, so it holds or not for good.
    assert np.abs(counts - 500).max() < 5 * 22


def test_the_seed_decides():
    sample = [sample_rows(TableBatches(people(0, 5000)), 100, seed)[0] for seed in (1, 1, 2)]
    assert sample[0].equals(sample[1])
    assert not sample[0].equals(sample[2])


def test_nothing_is_refused():
    with pytest.raises(PrivotError, match="has no rows"):
        sample_rows(TableBatches(pa.table({"x": pa.array([], pa.float64())})), 5, 0)

"""Known ids say what a dictionary says, whatever the order, and undo what was not stored."""

import numpy as np
import pytest

from privot.collector.ids import CONFLICT, DUPLICATE, NEW, KnownIds


def entries(rng, count, distinct):
    """Ids and digests, many of them again."""
    drawn = rng.integers(0, distinct, count)
    ids = np.stack([drawn, drawn // 2], axis=1)
    return np.concatenate([ids, rng.integers(1, 3, (count, 1))], axis=1).astype(np.uint64)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_a_dictionary(seed):
    rng, known, held = np.random.default_rng(seed), KnownIds(), {}
    for count in (1, 3, 500, 20_000, 0, 7):
        given = entries(rng, count, 5000)
        expected = []
        for first, second, digest in given.tolist():
            before = held.setdefault((first, second), digest) if (first, second) in held else None
            expected.append(NEW if before is None else DUPLICATE if before == digest else CONFLICT)
            held.setdefault((first, second), digest)
        statuses, places = known.claim(given)
        assert statuses.tolist() == expected
        assert ((places >= 0) == (statuses == NEW)).all()
        assert known.count == len(held)


def test_what_was_not_stored_is_new_again():
    rng, known = np.random.default_rng(1), KnownIds()
    before = entries(rng, 1000, 10**9)
    known.claim(before)
    group = np.concatenate([before[:10], entries(rng, 3000, 10**9)])
    first, places = known.claim(group)
    known.forget(places)
    again, _ = known.claim(group)
    assert (first == again).all()
    assert (known.claim(before)[0] == DUPLICATE).all()


def test_a_million_take_24_bytes_each_at_most_three_quarters_full():
    known = KnownIds(1_000_000)
    assert known.nbytes == 24 * 2**21
    assert KnownIds(10_000_000).nbytes <= 420e6

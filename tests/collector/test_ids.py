"""Known ids say what a dictionary says, whatever the order, and undo what was not stored."""

import numpy as np
import pytest

from privot.collector.store import DELETED, DUPLICATE, NEW, KnownIds


def entries(rng, count, distinct):
    """Ids and digests, many of them again."""
    drawn = rng.integers(0, distinct, count)
    ids = np.stack([drawn, drawn // 2], axis=1)
    return np.concatenate([ids, rng.integers(1, 3, (count, 1))], axis=1).astype(np.uint64)


@pytest.mark.parametrize("seed", range(3))
def test_a_deleted_id_is_deleted_with_any_content_and_no_other_is(seed):
    rng, known = np.random.default_rng(seed), KnownIds()
    given = entries(rng, 20_000, 5000)
    known.add(given)
    held = {}
    for *words, digest in given.tolist():
        held.setdefault(tuple(words), set()).add(digest)
    gone = np.array([[n, n // 2] for n in range(0, 6000, 3)], np.uint64)  # some of them unknown
    names = [tuple(each) for each in gone.tolist()]
    assert known.reports(gone).tolist() == [len(held.get(each, ())) for each in names]
    assert not known.deleted(gone).any()
    known.mark_deleted(gone)
    known.mark_deleted(gone[:10])
    names = {*names}
    left = {each: digests for each, digests in held.items() if each not in names}
    assert {tuple(each) for each in known.ids().tolist()} == left.keys()
    assert (known.count, len(known.ids())) == (sum(map(len, left.values())), len(left))
    assert known.deleted(gone).all()
    assert not known.reports(gone).any()
    for digest in (1, 2, 3):
        expected = [DELETED if tuple(each) in names else None for each in given[:, :2].tolist()]
        given[:, 2] = digest
        found = known.add(given)[0]
        assert [e is not None for e in expected] == (found == DELETED).tolist()
    assert known.count == 3 * len(left)


def test_a_hundred_thousand_contents_of_a_deleted_id_are_forgotten_at_once():
    known, given = KnownIds(), np.full((100_001, 3), 7, np.uint64)
    given[:, 2], given[-1, 0] = np.arange(1, 100_002), 8
    known.add(given)
    assert known.ids().shape == (2, 2)
    known.mark_deleted(given[:1, :2])
    assert known.add(given)[0].tolist() == [DELETED] * 100_000 + [DUPLICATE]
    assert known.count == 1


@pytest.mark.parametrize("seed", range(3))
def test_it_is_a_dictionary(seed):
    rng, known, held = np.random.default_rng(seed), KnownIds(), set()
    for count in (1, 3, 500, 20_000, 0, 7):
        given = entries(rng, count, 5000)
        expected = []
        for entry in map(tuple, given.tolist()):
            expected.append(DUPLICATE if entry in held else NEW)
            held.add(entry)
        statuses, places = known.add(given)
        assert statuses.tolist() == expected
        assert ((places >= 0) == (statuses == NEW)).all()
        assert known.count == len(held)


def test_what_was_not_stored_is_new_again():
    rng, known = np.random.default_rng(1), KnownIds()
    before = entries(rng, 1000, 10**9)
    known.add(before)
    group = np.concatenate([before[:10], entries(rng, 3000, 10**9)])
    first, places = known.add(group)
    known.forget(places)
    again, _ = known.add(group)
    assert (first == again).all()
    assert (known.add(before)[0] == DUPLICATE).all()


def test_a_million_take_24_bytes_each_at_most_three_quarters_full():
    known = KnownIds(1_000_000)
    assert known._table.nbytes == 24 * 2**21
    assert KnownIds(10_000_000)._table.nbytes <= 420e6


def test_a_hundred_thousand_contents_of_one_id_crowd_no_place():
    """Of one id there are as many places as contents: the last thousand are found as the first are."""
    known = KnownIds(200_000)
    given = np.full((100_000, 3), 7, np.uint64)
    given[:, 2] = np.arange(1, 100_001)
    assert (known.add(given)[0] == NEW).all()
    assert (known.add(given)[0] == DUPLICATE).all()
    taken = np.flatnonzero(known._table[:, 2])
    longest = np.diff(np.flatnonzero(np.diff(taken, prepend=-2, append=2**40) > 1)).max()
    assert (
        longest < 1000
    )  # a run of places at 2/5 full has length k with probability below e^(−k/3)

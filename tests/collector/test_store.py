"""What every engine does: each report once, by its id and content, and each sealed once."""

import numpy as np
import pytest

from campaign_reports import changed, later, made, rows
from privot.collector.store import DUPLICATE, NEW


def sealed(store):
    """Everything that a sealing takes, finished."""
    batch = store.begin_sealing()
    taken = [row.tobytes() for records in store.taken(batch) for row in records]
    store.finish_sealing(batch, [len(taken)])
    return taken


def test_new_reports_and_copies_are_told_apart(opened):
    store, reports = opened(), made(30)
    assert store.append(*rows(reports[:10])).tolist() == [NEW] * 10
    other = changed(reports[1])
    mixed = [reports[0], reports[10], other, reports[10], later(other), later(reports[0])]
    expected = [DUPLICATE, NEW, NEW, DUPLICATE, DUPLICATE, DUPLICATE]
    assert store.append(*rows(mixed)).tolist() == expected
    assert store.count == 12
    assert store.append(*rows([other, reports[1], reports[11]])).tolist() == [DUPLICATE] * 2 + [NEW]
    assert store.append(*rows([changed(reports[12]), reports[12]])).tolist() == [NEW, NEW]
    store.close()


def test_a_store_knows_all_when_it_is_opened_again(opened):
    store, reports = opened(), made(3000)
    store.append(*rows(reports[:1000]))
    store.append(*rows(reports[1000:2000]))
    store.close()
    store = opened()
    assert store.count == 2000
    statuses = store.append(*rows([*reports, later(reports[7]), changed(reports[7])]))
    assert statuses.tolist() == [DUPLICATE] * 2000 + [NEW] * 1000 + [DUPLICATE, NEW]
    assert store.disk_bytes() > 0
    store.close()


def test_what_is_sealed_is_all_and_stays_known(opened):
    store, reports = opened(), made(500)
    assert store.begin_sealing() is None
    store.append(*rows(reports[:300]))
    assert sorted(sealed(store)) == sorted(reports[:300])
    assert store.begin_sealing() is None
    assert (store.append(*rows(reports))[:300] == DUPLICATE).all()
    store.close()
    store = opened()
    assert store.count == 500
    assert sorted(sealed(store)) == sorted(reports[300:])
    assert (store.append(*rows([later(r) for r in reports])) == DUPLICATE).all()
    others = [changed(r) for r in reports[:20]]
    assert (store.append(*rows(others)) == NEW).all()
    assert sorted(sealed(store)) == sorted(others)
    store.close()


@pytest.mark.parametrize("again", [False, True])
def test_a_sealing_that_broke_off_takes_the_same_again(opened, again):
    store, reports = opened(), made(200)
    store.append(*rows(reports[:50]))
    assert len(sealed(store)) == 50
    store.append(*rows(reports[50:120]))
    begun = store.begin_sealing()
    assert begun.number == 1
    assert begun.shards == (50,)
    next(store.taken(begun))
    store.append(*rows(reports[120:]))  # comes while it is being sealed
    if again:
        store.close()
        store = opened()
    assert store.begin_sealing() == begun
    assert sorted(sealed(store)) == sorted(reports[50:120])
    assert sorted(sealed(store)) == sorted(reports[120:])
    assert store.begin_sealing() is None
    store.close()


def test_a_group_of_any_size_is_stored(opened):
    store, rng = opened(), np.random.default_rng(0)
    reports = made(5000)
    order = rng.integers(0, 5000, 20_000)
    statuses = store.append(*rows([reports[i] for i in order]))
    first = np.zeros(20_000, bool)
    first[np.unique(order, return_index=True)[1]] = True
    assert ((statuses == NEW) == first).all()
    assert (statuses[~first] == DUPLICATE).all()
    store.close()

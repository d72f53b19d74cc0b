"""One writer stores waiting reports together, answers each sender, and passes faults on to all."""

import asyncio
import threading

import numpy as np
import pytest

from campaign_reports import CAMPAIGN, made, rows
from privot.collector.arrivals import GroupCommit, MemoryInUse, MemoryLimit
from privot.collector.folder import FolderStore
from privot.collector.store import DUPLICATE, NEW, StoreFull, StoreStopped


class SlowStore:
    """Stores nothing before it is let."""

    def __init__(self, error=None):
        self.groups, self.let, self.error = [], threading.Semaphore(0), error
        self.entered = threading.Event()

    def append(self, records):
        self.entered.set()
        self.let.acquire()
        self.groups.append(len(records))
        if self.error:
            raise self.error
        return np.arange(len(records)).astype(np.uint8)


def test_what_comes_while_one_group_is_stored_is_the_next_group():
    async def run():
        store = SlowStore()
        writer = GroupCommit(store)
        first = asyncio.create_task(writer.append(*rows(made(1))))
        await asyncio.to_thread(store.entered.wait)  # the writer waits for its disk
        more = [asyncio.create_task(writer.append(*rows(made(n)))) for n in (2, 3, 4)]
        while writer.waiting < 10:
            await asyncio.sleep(0.001)
        store.let.release(2)
        answers = await asyncio.gather(first, *more)
        assert store.groups == [1, 9]
        assert [a.tolist() for a in answers] == [[0], [0, 1], [2, 3, 4], [5, 6, 7, 8]]
        assert writer.waiting == 0
        await asyncio.to_thread(writer.close)

    asyncio.run(run())


@pytest.mark.parametrize("error", [StoreFull("full"), StoreStopped("stopped"), MemoryError()])
def test_a_fault_reaches_everybody_of_the_group_and_the_writer_goes_on(error):
    async def run():
        store = SlowStore(error)
        store.let.release(10)
        writer = GroupCommit(store)
        tasks = [asyncio.create_task(writer.append(*rows(made(1)))) for _ in range(5)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in found] == [type(error)] * 5
        store.error = None
        assert (await writer.append(*rows(made(2)))).tolist() == [0, 1]
        await asyncio.to_thread(writer.close)

    asyncio.run(run())


def test_what_waits_is_stored_before_the_end_and_nothing_after(tmp_path):
    async def run():
        writer = GroupCommit(FolderStore(tmp_path, CAMPAIGN.format))
        reports = made(50)
        tasks = [asyncio.create_task(writer.append(*rows([report]))) for report in reports]
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.close)
        assert [(await task).tolist() for task in tasks] == [[NEW]] * 50
        with pytest.raises(StoreStopped, match="stopping"):
            await writer.append(*rows(made(1)))
        writer.store.close()
        store = FolderStore(tmp_path, CAMPAIGN.format)
        assert store.append(*rows(reports)).tolist() == [DUPLICATE] * 50

    asyncio.run(run())


def test_a_sender_that_hangs_up_takes_nothing_back(tmp_path):
    async def run():
        writer = GroupCommit(FolderStore(tmp_path, CAMPAIGN.format))
        reports = made(1)
        task = asyncio.create_task(writer.append(*rows(reports)))
        await asyncio.sleep(0)
        task.cancel()
        assert (await writer.append(*rows(reports))).tolist() == [DUPLICATE]
        await asyncio.to_thread(writer.close)

    asyncio.run(run())


def test_room_is_bounded_but_lets_one_of_any_size_in():
    room = MemoryLimit(100)
    with room.claiming() as mine:
        mine(60)
        with room.claiming() as other:
            with pytest.raises(MemoryInUse, match="busy"):
                other(60)
            assert room.held == 60
            other(30)
            other(10)
            with pytest.raises(MemoryInUse):
                mine(1)
        assert room.held == 60
    with room.claiming() as mine:
        mine(70)
        mine(1000)
    assert room.held == 0

"""Group commit: what waits is stored together, by one thread, and senders are told when it is durable.

While one group is flushed the next one gathers, so a report waits for two flushes at most, and
never for others to come. A disk that flushes in four milliseconds takes 250 groups a second, of any
size.

**Back-pressure.** What may be held in memory at once is bounded (`Room`): bodies as far as they have
been read, and reports that wait. Who comes beyond that is asked to come later. A body takes room as it
comes, and not for what it says that it will be: some dozens of senders who say much and send nothing
would shut everybody else out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import NamedTuple

import numpy as np

from privot.collector.ids import Statuses
from privot.collector.records import Records, Words
from privot.collector.store import Store, StoreStopped
from privot.errors import PrivotError

_MOST_BYTES = 2**26
_GROUP_ROWS = 2**16


class NoRoom(PrivotError):  # noqa: N818 (a state, not a fault)
    """So much is held already that no more is taken."""


class Room:
    """Bytes that may be held in memory.

    Arguments:
        size: How many.
    """

    def __init__(self, size: int = _MOST_BYTES) -> None:
        self.size, self.held = size, 0

    @contextmanager
    def claiming(self) -> Iterator[Callable[[int], None]]:
        """A function that claims more bytes, all of which are let go of after the block.

        It raises NoRoom if there are not so many left; one claim alone may be of any size.
        """
        mine = 0

        def claim(count: int) -> None:
            nonlocal mine
            if self.held > mine and self.held + count > self.size:
                raise NoRoom("the collector is busy: send it again in a few seconds")
            self.held, mine = self.held + count, mine + count

        try:
            yield claim
        finally:
            self.held -= mine


class _Waiting(NamedTuple):
    """Reports of one request, and who waits for them."""

    records: Records
    entries: Words
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Statuses]


class GroupCommit:
    """The one writer of a store.

    Arguments:
        store: Written by nobody else.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.waiting = 0
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="privot-writer", daemon=True)
        self._closed = False
        self._thread.start()

    async def append(self, records: Records, entries: Words) -> Statuses:
        """Each report's status, once all that is new is durable.

        Raises:
            StoreFull, StoreStopped: see `Store.append`.
        """
        self.require_open()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Statuses] = loop.create_future()
        self.waiting += len(records)
        try:
            self._queue.put(_Waiting(records, entries, loop, answer))
            # A sender that hangs up does not take back what may be stored by now.
            return await asyncio.shield(answer)
        finally:
            self.waiting -= len(records)

    def require_open(self) -> None:
        """Refuse what comes too late to be stored."""
        if self._closed:
            raise StoreStopped("the collector is stopping: send it again later")

    def close(self) -> None:
        """Store what waits, and end."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group, rows, ended = [first], len(first.records), False
            while rows < _GROUP_ROWS and not ended:
                try:
                    more = self._queue.get_nowait()
                except Empty:
                    break
                ended = more is None
                if more is not None:
                    group.append(more)
                    rows += len(more.records)
            self._commit(group)
            if ended:
                return

    def _commit(self, group: list[_Waiting]) -> None:
        try:
            statuses = self.store.append(
                np.concatenate([each.records for each in group]),
                np.concatenate([each.entries for each in group]),
            )
        except Exception as error:  # whatever it is, it must reach those who wait
            answers: list[Statuses | Exception] = [error] * len(group)
        else:
            ends = np.cumsum([len(each.records) for each in group])[:-1]
            answers = [*np.split(statuses, ends)]
        told: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Statuses], object]]] = {}
        for each, answer in zip(group, answers, strict=True):
            told.setdefault(each.loop, []).append((each.answer, answer))
        for loop, pairs in told.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_tell, pairs)


def _tell(pairs: list[tuple[asyncio.Future[Statuses], object]]) -> None:
    for future, answer in pairs:
        if future.done():
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)  # type: ignore[arg-type]  # statuses, if no fault

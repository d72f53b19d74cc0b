"""What a store of reports does, whichever engine it is.

A store keeps one campaign's records. **Whatever `append` has returned is durable**: it survives a kill
and a loss of power. A report is kept once, however often it comes; the same id with other content is
another report (`privot.collector.records`), so that nobody can strike out or replace one by its id,
before or after it came. Files of strangers are counted alike (`privot.release.collecting.collect`).

**Sealing** takes what is stored into shards of a release. It is begun and finished, and in between any
number of times broken off: a store remembers what it had begun, and gives the same records again, so
that each lands in one shard. Ids stay known.

**Deleting** (`privot.collector.deleting`) takes all reports of an id, and leaves the id alone, which
stays refused whatever comes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from privot.collector.ids import Statuses
from privot.collector.records import Records, Words
from privot.errors import PrivotError


class StoreFull(PrivotError):  # noqa: N818 (a state, not a fault)
    """There is no room: nothing of the group was stored, and a later one may be."""


class StoreStopped(PrivotError):  # noqa: N818 (a state, not a fault)
    """The store can no longer promise anything, or cannot now: nothing more is acknowledged."""


def shards_missing(found: int, made: int) -> PrivotError:
    """Refuses to call deleted what may be in shards that nobody has seen."""
    return PrivotError(
        f"the release has {found} shards and the store made {made}, so deleted reports may be in those "
        "that are missing: give --release as `privot serve` has it"
    )


@dataclass(frozen=True)
class Batch:
    """What one sealing takes.

    Arguments:
        number: Of the sealing, from 0.
        reports: How many it takes, about.
        shards: Rows of the shards that there are already.
    """

    number: int
    reports: int
    shards: tuple[int, ...]


class Store(Protocol):
    """One campaign's reports."""

    @property
    def count(self) -> int:
        """How many reports were accepted and not deleted, sealed ones included."""

    def disk_bytes(self) -> int:
        """What they take on the disk, as far as the store knows."""

    def append(self, records: Records, entries: Words) -> Statuses:
        """Store what is new, durably; each one's status, in their order.

        Raises:
            StoreFull: if nothing was stored for want of room.
            StoreStopped: if nothing can be promised.
        """

    def begin_sealing(self) -> Batch | None:
        """Set aside all that is not sealed, or what a sealing that broke off had; None if nothing."""

    def taken(self, batch: Batch) -> Iterator[Records]:
        """The records of a sealing that was begun, piece by piece."""

    def finish_sealing(self, batch: Batch, rows: list[int]) -> None:
        """Its records are in new shards of so many rows, which are durable."""

    def delete(self, ids: Sequence[bytes] | None) -> int:
        """Forget reports of these ids, or all, but for the ids; how many. Durable and all or none.

        Raises:
            PrivotError: if one is of no report, stored or deleted.
        """

    def to_erase(self) -> frozenset[bytes]:
        """Ids of deleted reports that files of the release may still hold."""

    def finish_erasing(self, rows: list[int]) -> None:
        """No file of the release holds them; its shards have so many rows, broken off ones too."""

    def close(self) -> None:
        """Let go of files and connections."""

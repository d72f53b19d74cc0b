"""Which engine keeps a campaign's reports: a folder, or PostgreSQL, chosen by the address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from privot.collector.arrivals import Campaign
from privot.collector.folder import FolderStore
from privot.collector.postgres import PostgresStore
from privot.collector.store import Store
from privot.errors import PrivotError

_POSTGRES = ("postgresql://", "postgres://")


def open_store(
    address: str, campaign: Campaign, told: Callable[[str], None] = lambda line: None
) -> Store:
    """The store of a campaign at an address.

    Arguments:
        address: A folder, or `postgresql://user@host/database`.
        campaign: Whose reports; each has a folder of its own in the folder, or its rows in the tables.
        told: Takes lines for people.

    Raises:
        PrivotError: if it cannot be opened, or another process has it.
    """
    if address.startswith(_POSTGRES):
        return PostgresStore(address, campaign.example)
    if "://" in address:
        raise PrivotError(f"--store {address} is not known: give a folder, or postgresql://…")
    folder = Path(address) / campaign.fingerprint
    return FolderStore(folder, campaign.example, told, panel=campaign.panel)


def release_address(address: str, release: str | None, fingerprint: str) -> str:
    """Where a campaign's shards go: below `release`, if it is said, else in the store's folder.

    Raises:
        PrivotError: if it is not said, and the store is no folder.
    """
    if release is not None:
        return f"{release.rstrip('/')}/{fingerprint}"
    if "://" in address:
        raise PrivotError(
            "--release is missing, for a database keeps no shards: give a folder or an address"
        )
    return str(Path(address) / fingerprint / "release")

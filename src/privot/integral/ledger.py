r"""The ledger: how many of a model's declared draws are spent. Spent is spent, before anything leaves.

Each draw costs $ε_{draw}$, and the promise is about $N$ of them. A ledger counts. `spend(n)` writes
the new count to the disk **before** the draws are made, so that a kill between the two loses draws,
never budget; draw $N + 1$ is refused.

**In a file.** `ledger.json` in the model's folder is a chain of entries, each with the SHA-256 of the
one before it, the first with that of the model's identity (a random number, the budget, a digest of
the weights). It is replaced as a whole, flushed, and renamed into place. Outside of the folder, a
**witness** in the user's state folder (`$PRIVOT_STATE_DIR`, else `$XDG_STATE_HOME/privot`, else
`~/.local/state/privot`) holds the count and the head of the chain, and a lock that lets one process at a
time spend: two processes, or two copies of a folder on one account, share lock and witness.

What is detected, and refused:

- a folder **rolled back** to an earlier state, or a **copy** that is behind: the witness knows of more;
- two copies that were both drawn from: the witness's head is not in the chain;
- a folder that comes from **another account or machine**: there is no witness. `adopt` declares that
  the original will not be drawn from again;
- an entry, the budget or the weights that were changed: the hashes do not fit.

What cannot be detected: copies drawn from on machines that do not share a state folder, after `adopt`;
a state folder rolled back together with the model's (a restored backup or snapshot of the machine);
the last step, if a kill kept it from the witness and the folder was rolled back by just that step;
someone who rewrites the files, the hashes and the witness. The curator holds the records, and is
trusted: a ledger protects from accidents, not from its owner.

A lock of a network file system is only as good as that file system's.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from privot.errors import PrivotError
from privot.files import replacing_file

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # stands for "no such module"

FILE = "ledger.json"


class Ledger(Protocol):
    """Counts draws against a declared number of them."""

    @property
    def budget(self) -> int:
        """Draws declared."""

    @property
    def spent(self) -> int:
        """Draws spent so far."""

    def spend(self, draws: int) -> None:
        """Spend draws that are about to be made, or refuse."""


class MemoryLedger:
    """The ledger of a model that was not saved: its count dies with the process."""

    def __init__(self, budget: int) -> None:
        self.budget, self._spent = budget, 0
        self._lock = threading.Lock()

    @property
    def spent(self) -> int:
        """Draws spent so far."""
        return self._spent

    def spend(self, draws: int) -> None:
        """Spend draws, or refuse."""
        with self._lock:
            _check(draws, self._spent, self.budget)
            self._spent += draws


@dataclass(frozen=True)
class FileLedger:
    """The ledger in a model's folder.

    Arguments:
        folder: The model's.
        identity: SHA-256 of what the model is; names the witness and starts the chain.
        budget: Draws declared.
    """

    folder: Path
    identity: str
    budget: int

    @property
    def spent(self) -> int:
        """Draws spent so far, after all checks."""
        with self._locked():
            return _spent(self._verified())

    def create(self, already_spent: int) -> None:
        """Start the chain and the witness; `already_spent` counts draws made before saving."""
        with self._locked():
            self._write([self._entry([], already_spent)])

    def spend(self, draws: int) -> None:
        """Spend draws, on the disk, or refuse.

        Raises:
            PrivotError: if fewer are left, or the ledger is a copy, rolled back, or damaged.
        """
        with self._locked():
            entries = self._verified()
            _check(draws, _spent(entries), self.budget)
            self._write([*entries, self._entry(entries, draws)])

    def adopt(self) -> None:
        """Let this account draw from a folder that came from elsewhere.

        Only if the original will never be drawn from again: otherwise the budget is spent twice.

        Raises:
            PrivotError: if there is a witness already, which knows better.
        """
        with self._locked():
            if self._witness.exists():
                raise PrivotError(
                    f"model {self.folder} is already known to this account: sample from it as it is"
                )
            self._witness_write(self._chain())

    def _entry(self, entries: list[dict[str, Any]], draws: int) -> dict[str, Any]:
        fields = {
            "draws": draws,
            "spent": _spent(entries) + draws,
            "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "previous": entries[-1]["hash"] if entries else self.identity,
        }
        return fields | {"hash": _hash(fields)}

    def _chain(self) -> list[dict[str, Any]]:
        """The entries, if they are a chain."""
        path = self.folder / FILE
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))["entries"]
            previous, spent = self.identity, 0
            for entry in entries:
                fields = {name: value for name, value in entry.items() if name != "hash"}
                spent += entry["draws"]
                good = entry["previous"] == previous and entry["spent"] == spent
                if not good or entry["draws"] < 0 or entry["hash"] != _hash(fields):
                    raise ValueError("an entry was changed")
                previous = entry["hash"]
            if not entries:
                raise ValueError("it has no entries")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PrivotError(
                f"ledger {path} cannot be trusted ({type(error).__name__}: {error}): nobody knows how "
                "many draws are spent, so fit a new model with a budget of its own"
            ) from None
        return list(entries)

    def _verified(self) -> list[dict[str, Any]]:
        """The entries, if the witness agrees."""
        entries = self._chain()
        try:
            seen = json.loads(self._witness.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise PrivotError(
                f"model {self.folder} was never seen by this account, so it is a copy: sample where it "
                "was fitted, or adopt it if the original will never be drawn from again"
            ) from None
        except (OSError, ValueError) as error:
            raise PrivotError(f"witness {self._witness} cannot be read: {error}") from None
        # A kill between ledger and witness leaves the witness one step behind: its head is then
        # further up the chain.
        if seen["head"] not in [entry["hash"] for entry in entries]:
            raise PrivotError(
                f"ledger of model {self.folder} was rolled back or copied: {seen['spent']} draws are "
                f"known to be spent, the folder knows of {_spent(entries)}; restore the newest folder"
            )
        return entries

    def _write(self, entries: list[dict[str, Any]]) -> None:
        text = json.dumps({"entries": entries}, indent=1)
        with replacing_file(self.folder / FILE, secret=True) as draft:
            draft.write_text(text + "\n", encoding="utf-8")
        _flush_folder(self.folder)
        self._witness_write(entries)

    def _witness_write(self, entries: list[dict[str, Any]]) -> None:
        seen = {"spent": _spent(entries), "head": entries[-1]["hash"]}
        with replacing_file(self._witness, secret=True) as draft:
            draft.write_text(json.dumps(seen) + "\n", encoding="utf-8")
        _flush_folder(self._witness.parent)

    @property
    def _witness(self) -> Path:
        return state_folder() / f"{self.identity[:32]}.json"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time, over all copies of the folder that this account has."""
        lock = self._witness.with_suffix(".lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise PrivotError(
                f"{lock} cannot be written ({error.strerror}): set PRIVOT_STATE_DIR to a folder that "
                "stays and that this account may write to"
            ) from None
        try:
            if fcntl is None:
                raise PrivotError("this system has no file locks that ledgers know: use POSIX")
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def state_folder() -> Path:
    """Where witnesses live: outside of every model's folder."""
    if given := os.environ.get("PRIVOT_STATE_DIR"):
        return Path(given) / "integral"
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "privot" / "integral"


def _check(draws: int, spent: int, budget: int) -> None:
    if draws < 1:
        raise PrivotError(f"n {draws} is not positive: give how many records to draw")
    if spent + draws > budget:
        raise PrivotError(
            f"n {draws} is more than the budget leaves: {spent} of {budget} draws are spent; ask for "
            f"at most {budget - spent}, or fit a new model with a budget of its own"
        )


def _spent(entries: list[dict[str, Any]]) -> int:
    return int(entries[-1]["spent"]) if entries else 0


def _hash(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

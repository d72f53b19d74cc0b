"""Admission of senders: anybody, holders of a token, or holders of a signed ticket.

An admission is any function of the `Authorization` header's value and the campaign's fingerprint that
raises `NotAdmitted`, or returns `Admitted` with the end of its validity. Two are here, both against
floods and neither about persons:

- `tokens`: `Bearer` and one of a file's tokens. All devices of one app have the same.
- `tickets`: `Ticket` and a text that a service of yours signed (Ed25519) for a device that it knows:
  the second until which it holds, a nonce, and the signature. Each admits a fixed number of requests.

`UsedTickets` stores the nonces of used tickets, and `WaveTickets` issues one ticket a person and wave.

**When a ticket is used up.** Not by a request that is refused before anything is stored (a slow body,
a busy collector, a batch of no use): the same ticket is good for the next attempt. A use is counted on
disk immediately before the reports are handed to the store, so that no crash lets a second report in.
From then until the answer, and if the store fails, the same reports may be sent again with the same
ticket (a store accepts a report once), and no others. After the acknowledgment nothing may. If the
process is killed between the count and the acknowledgment, the ticket is used up: at most one report,
rather than at least one.

Time is the latest that this process has seen, so a clock that runs backwards lets no ticket live
longer.

**Privacy review.** A ticket identifies its person to the issuer, if the issuer sees it again. So a
collector stores of a ticket only its nonce, until it ends, and nothing that ties it to a report: a
digest of the reports is held in memory while they are not acknowledged, never on disk. Whoever issues
tickets must not see them used. A token that all devices share identifies nobody.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from privot.core.errors import PrivotError
from privot.core.files import flush_folder, holding_state, replacing_file, write_down
from privot.waves import Panel

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # stands for "no such module"


def locked(path: Path) -> int:
    """Return a handle that holds a lock until it is closed, or its process ends in any way.

    Raises:
        PrivotError: if another process holds it.
    """
    if fcntl is None:
        raise PrivotError("this system has no file locks that tickets can use: use POSIX")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise PrivotError(
            f"{path.parent} is served by another process: stop that one, or name another folder"
        ) from None
    return handle


NONCE_BYTES = 16
_ENTRY = struct.Struct(f">I{NONCE_BYTES}sI")


def _entry(nonce: bytes, until: int) -> bytes:
    head = struct.pack(f">I{NONCE_BYTES}s", until, nonce)
    return head + struct.pack(">I", zlib.crc32(head))


class UsedTickets:
    """Uses of tickets, in a file that outlives the process.

    Each use is one entry behind the others, flushed before any report that it admits is stored: its end
    (4 bytes), its nonce (16), and the CRC-32 of both. A loss of power may leave half of the last entry,
    for which nothing was stored: it is cut off. When there are too many, those that have ended are left
    out, and an entry without a nonce says until when, so that a clock which is set back later revives
    none of them.

    **Privacy review.** The file holds nonces and ends, in the order of arrival; no report, and no time.

    Arguments:
        path: Created if it does not exist.

    Raises:
        PrivotError: if it is damaged, or another process has it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.latest = path, 0
        self._handle = -1
        self.seen: dict[bytes, tuple[int, int]] = {}
        self._lock = locked(path.with_name(path.name + ".lock"))
        data = path.read_bytes() if path.exists() else b""
        for at in range(0, len(data), _ENTRY.size):
            part = data[at : at + _ENTRY.size]
            if len(part) < _ENTRY.size or zlib.crc32(part[:-4]) != int.from_bytes(part[-4:], "big"):
                if at + _ENTRY.size < len(data):
                    raise PrivotError(
                        f"{path} is damaged, and with it who was admitted: restore it"
                    )
                break
            until, nonce, _ = _ENTRY.unpack(part)
            if nonce.strip(b"\0"):
                self.seen[nonce] = until, self.seen.get(nonce, (0, 0))[1] + 1
            else:
                self.latest = max(self.latest, until)
        self.forget(self.latest)

    def use(self, nonce: bytes, until: int) -> None:
        """Count a use, durably.

        Raises:
            OSError: if it cannot be written; then it is not counted, and the file is as before.
        """
        data, size = memoryview(_entry(nonce, until)), os.fstat(self._handle).st_size
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, size)
            raise
        self.seen[nonce] = until, self.seen.get(nonce, (0, 0))[1] + 1

    def forget(self, latest: int) -> None:
        """Remove tickets that ended by then, for good."""
        self.latest = latest
        for old in [nonce for nonce, (end, _) in self.seen.items() if end <= latest]:
            del self.seen[old]
        with replacing_file(self._path, secret=True) as draft:
            uses = [_entry(n, end) * used for n, (end, used) in self.seen.items()]
            draft.write_bytes(_entry(bytes(NONCE_BYTES), latest) + b"".join(uses))
        flush_folder(self._path.parent)
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the file and release its lock."""
        os.close(self._handle)
        os.close(self._lock)


@dataclass(frozen=True)
class WaveTickets:
    """Issuer of tickets for a panel: its schedule, enforced by the collector without linking waves.

    A service that identifies its people (how, is its own matter) issues each of them one ticket in
    every wave of their slot, and none in any other. A collector accepts one report for each ticket
    (`tickets` with one use, also after a restart, and `Collector(reports_each=1)`), and a ticket ends
    with its wave; of a campaign with a panel, the report has to be of the same wave as the ticket. So
    a person whose device draws twice, or in another slot's wave, has no second report accepted: at
    most one report of a person is **accepted** in any w consecutive waves. (What their device has sent
    to anybody else is up to the device's ledger: `privot.waves.ledger`.)

    **Privacy review.** No value of a record is seen. The nonce of a ticket is a keyed
    hash of the person's id under a key that is drawn for the wave and overwritten with the next. So a
    person who requests a ticket again gets the same one, and yet **no request is recorded**; and once
    a wave's key is gone, no nonce can be linked to a person, nor two to each other. Until then the
    issuer could link a nonce to its person, so it must not see tickets used. A person who takes part
    in no wave looks like one who does, except to the service, which never gets their request.

    *Gone* is as gone as the file's old content. An overwritten key may live on in a backup, a
    snapshot, a copy-on-write file system or free blocks of the disk; whoever finds it there, knows the
    ids and sees nonces can link each to its person, in that wave. Keep `path` where nothing stays: in
    memory (tmpfs), or on an encrypted disk that no backup reads. If a restart loses the key, a person
    who has used a ticket gets another in that wave, so that a device that draws twice has two reports
    accepted; a ledger draws once all the same.

    A clock that is set back finds a later wave's key, and is refused.

    Arguments:
        panel: Schedule of the people's reports.
        fingerprint: Fingerprint of the campaign's randomizer, 64 hexadecimal digits.
        key: Private key that signs; the collector has the public key.
        path: File for the key of the wave.
        clock: Seconds since 1970.
    """

    panel: Panel
    fingerprint: str
    key: Ed25519PrivateKey
    path: Path
    clock: Callable[[], float] = time.time

    def give(self, person: str) -> str:
        """Return the ticket of a person in the current wave; the same at every request.

        Raises:
            NotAdmitted: if the wave is not one of the person's slot.
            PrivotError: before the first wave and after the last, and where the clock was set back.
        """
        panel = self.panel
        wave = panel.wave_at(self.clock())
        if not panel.is_due(person, wave):
            due = panel.next_wave(person, wave)
            when = "no more" if due is None else f"in wave {due}"
            raise NotAdmitted(
                f"campaign {panel.name!r} asks this person {when}, and it is wave {wave}"
            )
        nonce = hmac.digest(self._wave_key(wave), person.encode(), hashlib.sha256)[:NONCE_BYTES]
        until = panel.start + (wave + 1) * panel.length
        return sign_ticket(self.key, self.fingerprint, until, nonce)

    def _wave_key(self, wave: int) -> bytes:
        with holding_state():
            try:
                held = json.loads(self.path.read_text(encoding="utf-8"))
                last, key = int(held["wave"]), bytes.fromhex(held["key"])
            except FileNotFoundError:
                last, key = -1, b""
            except (OSError, ValueError, KeyError, TypeError):
                raise PrivotError(
                    f"{self.path} is damaged: restore it, or remove it once this wave has ended"
                ) from None
            if wave < last:
                raise PrivotError(
                    f"the clock shows wave {wave} of campaign {self.panel.name!r}, and tickets of wave "
                    f"{last} were given: set the clock"
                )
            if wave > last:
                key = secrets.token_bytes(32)
                write_down(self.path, {"wave": wave, "key": key.hex()})
        return key


_MIN_TOKEN_LENGTH = 16
_HEAD = struct.Struct(f">I{NONCE_BYTES}s")
_CONTEXT = b"privot ticket 1"
_MAX_TICKETS = 2**20


class NotAdmitted(PrivotError):  # noqa: N818 (an answer, not a fault)
    """The sender has no valid token or ticket."""


@dataclass(frozen=True)
class Admitted:
    """A sender's right to one request.

    Arguments:
        until: The second since 1970 at which it ends; None for no end.
    """

    until: int | None = None

    def use(self, content: bytes) -> None:
        """Count a use, durably, before the reports with this content are stored.

        Raises:
            NotAdmitted: if it was used up meanwhile.
        """

    def acknowledge(self, content: bytes) -> None:
        """Record that reports with this content are stored: they are not accepted with it again."""


Admission = Callable[[str, str], Admitted]


def everybody(authorization: str, fingerprint: str) -> Admitted:
    """Admit every sender."""
    return Admitted()


def tokens(path: Path) -> Admission:
    """Return the admission of senders with `Authorization: Bearer` and a line of a file.

    Raises:
        PrivotError: if the file has no token, or a short one, which could be guessed.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        raise PrivotError(f"--token-file {path} cannot be read: check the path") from None
    held = [line.encode() for line in lines if line and not line.startswith("#")]
    if not held or min(map(len, held)) < _MIN_TOKEN_LENGTH:
        raise PrivotError(
            f"--token-file {path} has no tokens, or short ones: write lines of {_MIN_TOKEN_LENGTH} "
            "characters or more, such as `openssl rand -hex 16` makes"
        )
    known = [hashlib.sha256(token).digest() for token in held]

    def admit(authorization: str, fingerprint: str) -> Admitted:
        kind, _, token = authorization.partition(" ")
        digest = hashlib.sha256(token.strip().encode()).digest()
        right = [hmac.compare_digest(digest, each) for each in known]
        if kind.lower() != "bearer" or not any(right):
            raise NotAdmitted("no token, or an unknown one: send Authorization: Bearer TOKEN")
        return Admitted()

    return admit


def sign_ticket(
    key: Ed25519PrivateKey, fingerprint: str, until: float, nonce: bytes | None = None
) -> str:
    """Return a ticket for one campaign, as a device sends it; with a fresh nonce if none is given."""
    head = _HEAD.pack(int(until), nonce or secrets.token_bytes(NONCE_BYTES))
    signed = key.sign(_CONTEXT + bytes.fromhex(fingerprint) + head)
    return "Ticket " + base64.urlsafe_b64encode(head + signed).decode()


def tickets(
    key: Ed25519PublicKey, path: Path, uses: int = 1, clock: Callable[[], float] = time.time
) -> Admission:
    """Return the admission of senders with a signed ticket that has not ended, `uses` times each.

    Arguments:
        key: Public key of the issuer.
        path: File of used tickets, which a restart reads; of this process alone.
        uses: Requests that each ticket admits.
        clock: Seconds since 1970.
    """
    book = _Book(UsedTickets(path), uses, clock)

    def admit(authorization: str, fingerprint: str) -> Admitted:
        kind, _, text = authorization.partition(" ")
        try:
            ticket = base64.b64decode(text.strip(), altchars=b"-_", validate=True)
            until, nonce = _HEAD.unpack_from(ticket)
            signed = _CONTEXT + bytes.fromhex(fingerprint) + ticket[: _HEAD.size]
            key.verify(ticket[_HEAD.size :], signed)
        except (binascii.Error, ValueError, struct.error, InvalidSignature):
            until, nonce = 0, b""
        if kind.lower() != "ticket" or not nonce:
            raise NotAdmitted("no ticket, or one that was not signed for this campaign: get one")
        book.require_usable(nonce, until)
        return _Ticket(until=int(until), nonce=nonce, book=book)

    return admit


class _Book:
    """Used tickets, and digests of the reports that they admitted and that are not acknowledged."""

    def __init__(self, used: UsedTickets, uses: int, clock: Callable[[], float]) -> None:
        self.used, self._uses, self._clock = used, uses, clock
        self._latest = float(used.latest)
        self.open: dict[bytes, set[bytes]] = {}

    def require_usable(self, nonce: bytes, until: int, digest: bytes | None = None) -> None:
        """Refuse a ticket that has ended, or was used up by other reports than those of the digest.

        Before the reports are known, a ticket with unacknowledged ones is accepted.
        """
        self._latest = max(self._latest, self._clock())
        waiting = self.open.get(nonce, set())
        again = bool(waiting) if digest is None else digest in waiting
        _, used = self.used.seen.get(nonce, (0, 0))
        if until <= self._latest or (used >= self._uses and not again):
            raise NotAdmitted("the ticket has ended, or was used up: get another")

    def require_room(self) -> None:
        """Refuse a ticket when 2²⁰ are stored; those that have ended are removed first."""
        if len(self.used.seen) >= _MAX_TICKETS:
            self.used.forget(int(self._latest))
            self.open = {n: digests for n, digests in self.open.items() if n in self.used.seen}
        if len(self.used.seen) >= _MAX_TICKETS:
            raise NotAdmitted("too many tickets are in use: send it again later")


@dataclass(frozen=True, kw_only=True)
class _Ticket(Admitted):
    """A signed ticket that is not used up; nothing else uses it between two awaits."""

    until: int
    nonce: bytes
    book: _Book

    def use(self, content: bytes) -> None:
        digest = hashlib.sha256(content).digest()
        self.book.require_usable(self.nonce, self.until, digest)
        waiting = self.book.open.get(self.nonce, set())
        if digest not in waiting:
            self.book.require_room()
            self.book.used.use(self.nonce, self.until)
            self.book.open[self.nonce] = waiting | {digest}

    def acknowledge(self, content: bytes) -> None:
        if left := self.book.open.pop(self.nonce, set()) - {hashlib.sha256(content).digest()}:
            self.book.open[self.nonce] = left

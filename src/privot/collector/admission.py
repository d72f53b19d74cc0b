"""Admission of senders: anybody, holders of a token, or holders of a signed ticket.

An admission is a function of the `Authorization` header's value and the campaign's fingerprint that
raises `NotAdmitted`, or returns `Admitted` with the end of its validity. Besides `everybody`, this
module has two admissions, which limit floods of requests and identify no persons:

- `tokens`: the header is `Bearer` and one of a file's tokens. All devices of an app share a token.
- `tickets`: the header is `Ticket` and a text that the operator's service signed (Ed25519) for a
  device: the second at which the ticket expires, a nonce, and the signature. Each ticket admits a
  fixed number of requests.

`UsedTickets` stores the nonces of used tickets, and `WaveTickets` issues one ticket a person and wave.

**When a ticket is used up.** A request that is refused before anything is stored (a slow body, a busy
collector, an unreadable batch) does not use up its ticket. A use is written to disk immediately before
the reports are given to the store, so that no crash admits a second report. Until the reports
are acknowledged, or if the store fails, the sender may send them again with the same ticket (a store
accepts a report once), but no others. If the process is killed between the write and the
acknowledgment, the ticket is used up: delivery is at most once.

Expiry is compared with the latest time that was seen: a clock set back extends no ticket.

**Privacy review.** A ticket identifies its person to the issuer, if the issuer sees it again. So a
collector stores only a ticket's nonce and expiry, until it expires, in the order of arrival, and nothing
that links it to a report: a digest of unacknowledged reports is in memory only, never on disk. Whoever
issues tickets must not see them used. A token that all devices share identifies nobody.
"""

from __future__ import annotations

import base64
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
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from privot.core import files
from privot.core.errors import PrivotError
from privot.waves import Panel


class NotAdmitted(PrivotError):  # noqa: N818 (an answer, not a fault)
    """The sender has no valid token or ticket."""


@dataclass(frozen=True)
class Admitted:
    """A sender's right to one request.

    Arguments:
        until: Time of expiry, in seconds since 1970; None for no expiry.
        use: Function that is called with the bytes of all reports before they are stored, and counts a
            use durably. It raises `NotAdmitted` if other reports have used up the right meanwhile.
        acknowledge: Function that is called with these bytes once the reports are stored, after which
            the right does not admit them again.
    """

    until: int | None = None
    use: Callable[[bytes], None] = lambda content: None
    acknowledge: Callable[[bytes], None] = lambda content: None


Admission = Callable[[str, str], Admitted]  # arguments: `Authorization` header, fingerprint


def everybody(authorization: str, fingerprint: str) -> Admitted:
    """Admit every sender."""
    return Admitted()


_MIN_TOKEN_LENGTH = 16


def tokens(path: Path) -> Admission:
    """Return an admission of senders whose bearer token is a line of a file.

    Raises:
        PrivotError: if the file has no token, or a token so short that it could be guessed.
    """
    lines = [line.strip() for line in files.read_text(path, "--token-file").splitlines()]
    accepted = [line.encode() for line in lines if line and not line.startswith("#")]
    if not accepted or min(map(len, accepted)) < _MIN_TOKEN_LENGTH:
        raise PrivotError(
            f"--token-file {path} has no tokens, or short ones: write lines of {_MIN_TOKEN_LENGTH} "
            "characters or more, such as `openssl rand -hex 16` makes"
        )
    digests = [hashlib.sha256(token).digest() for token in accepted]

    def admit(authorization: str, fingerprint: str) -> Admitted:
        kind, _, token = authorization.partition(" ")
        sent = hashlib.sha256(token.strip().encode()).digest()
        # A list, not a generator: the time must not depend on which token matches.
        matches = [hmac.compare_digest(sent, digest) for digest in digests]
        if kind.lower() != "bearer" or not any(matches):
            raise NotAdmitted("no token, or an unknown one: send Authorization: Bearer TOKEN")
        return Admitted()

    return admit


NONCE_BYTES = 16
_CRC_BYTES = 4
_HEAD = struct.Struct(f">I{NONCE_BYTES}s")  # expiry and nonce of a ticket
_CONTEXT = b"privot ticket 1"
_MAX_TICKETS = 2**20  # one use of each takes 25 MB on the disk in all


def sign_ticket(
    key: Ed25519PrivateKey, fingerprint: str, until: float, nonce: bytes | None = None
) -> str:
    """Return a signed ticket for one campaign, as the value of a request's `Authorization` header.

    Arguments:
        key: Private key of the issuer.
        fingerprint: Fingerprint of the campaign's randomizer, 64 hexadecimal digits.
        until: Time of expiry, in seconds since 1970.
        nonce: 16 bytes, by which a collector recognizes the ticket; random by default.
    """
    head = _HEAD.pack(int(until), nonce or secrets.token_bytes(NONCE_BYTES))
    signed = key.sign(_CONTEXT + bytes.fromhex(fingerprint) + head)
    return "Ticket " + base64.urlsafe_b64encode(head + signed).decode()


def tickets(
    key: Ed25519PublicKey, path: Path, uses: int = 1, clock: Callable[[], float] = time.time
) -> Admission:
    """Return an admission of senders with a signed ticket that has not expired, `uses` times each.

    Arguments:
        key: Public key of the issuer.
        path: File of used tickets, which a restart reads; no other process may use it. Of several
            collectors, with a file each, each admits a ticket.
        uses: Number of requests that each ticket admits.
        clock: Function that returns the time, in seconds since 1970.
    """
    book = _TicketBook(UsedTickets(path), uses, clock)

    def admit(authorization: str, fingerprint: str) -> Admitted:
        kind, _, text = authorization.partition(" ")
        try:
            ticket = base64.b64decode(text.strip(), altchars=b"-_", validate=True)
            until, nonce = _HEAD.unpack_from(ticket)
            signed = _CONTEXT + bytes.fromhex(fingerprint) + ticket[: _HEAD.size]
            key.verify(ticket[_HEAD.size :], signed)
        except (ValueError, struct.error, InvalidSignature):
            until, nonce = 0, b""
        if kind.lower() != "ticket" or not nonce:
            raise NotAdmitted("no ticket, or one that was not signed for this campaign: get one")
        book.require_usable(nonce, until)
        use = partial(book.use, nonce, until)
        return Admitted(int(until), use, partial(book.acknowledge, nonce))

    return admit


class _TicketBook:
    """Used tickets, and digests of the unacknowledged reports that each has admitted.

    All requests run in one thread and take turns only at an `await`, which no method here contains: so
    no other request intervenes between a method's check and what it stores.
    """

    def __init__(self, used: UsedTickets, uses: int, clock: Callable[[], float]) -> None:
        self._used, self._max_uses, self._clock = used, uses, clock
        self._latest_time = float(used.latest)
        self._unacknowledged: dict[bytes, set[bytes]] = {}

    def require_usable(self, nonce: bytes, until: int, digest: bytes | None = None) -> None:
        """Refuse a ticket that has expired, or was used up by reports with another digest than `digest`.

        Before the reports of a request are read, `digest` is None. A used-up ticket is then accepted
        until its reports are acknowledged, because the request may repeat them.
        """
        self._latest_time = max(self._latest_time, self._clock())
        waiting = self._unacknowledged.get(nonce, set())
        may_repeat = bool(waiting) if digest is None else digest in waiting
        is_used_up = nonce in self._used.seen and self._used.seen[nonce].number >= self._max_uses
        if until <= self._latest_time or (is_used_up and not may_repeat):
            raise NotAdmitted("the ticket has ended, or was used up: get another")

    def use(self, nonce: bytes, until: int, content: bytes) -> None:
        """Count a use durably, unless the same content waits for its acknowledgment."""
        digest = hashlib.sha256(content).digest()
        self.require_usable(nonce, until, digest)
        if digest not in self._unacknowledged.get(nonce, set()):
            self._require_room()
            self._used.use(nonce, until)
            self._unacknowledged.setdefault(nonce, set()).add(digest)

    def acknowledge(self, nonce: bytes, content: bytes) -> None:
        """Record that the reports in the content are stored."""
        waiting = self._unacknowledged.pop(nonce, set())
        waiting.discard(hashlib.sha256(content).digest())
        if waiting:
            self._unacknowledged[nonce] = waiting

    def _require_room(self) -> None:
        """Remove expired tickets if 2²⁰ are stored; refuse a new one if that many remain."""
        seen = self._used.seen
        if len(seen) >= _MAX_TICKETS:
            self._used.forget(int(self._latest_time))
            expired = self._unacknowledged.keys() - seen.keys()
            for nonce in expired:
                del self._unacknowledged[nonce]
        if len(seen) >= _MAX_TICKETS:
            raise NotAdmitted("too many tickets are in use: send it again later")


class TicketUses(NamedTuple):
    """Expiry of a ticket, in seconds since 1970, and the number of its uses."""

    until: int
    number: int


class UsedTickets:
    """Durable list of ticket uses, in a file that outlives the process.

    Each use appends an entry, flushed before any report that it admits is stored: the ticket's expiry
    (4 bytes), its nonce (16 bytes), and the CRC-32 of both. A loss of power may leave half of the last
    entry, for which no report was stored: it is cut off. When there are too many tickets, expired ones
    are removed, and an entry with a zero nonce records the time of this removal, so that expired tickets
    stay invalid if the clock is set back later.

    Arguments:
        path: File of the entries, created if it does not exist.

    Raises:
        PrivotError: if the file is damaged, or another process has it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.latest = path, 0
        self._handle = -1  # file descriptor, once `forget` has opened the file
        self.seen: dict[bytes, TicketUses] = {}
        busy = f"{path.parent} is served by another process: stop that one, or name another folder"
        self._lock = files.open_locked(path.with_name(path.name + ".lock"), busy=busy)
        data = path.read_bytes() if path.exists() else b""
        size = _HEAD.size + _CRC_BYTES
        for start in range(0, len(data), size):
            head, crc = data[start : start + _HEAD.size], data[start + _HEAD.size : start + size]
            if _crc(head) != crc:
                if start + size < len(data):
                    raise PrivotError(f"{path} is damaged, so used tickets are unknown: restore it")
                break  # the last entry, which a loss of power has cut
            until, nonce = _HEAD.unpack(head)
            if nonce == _NO_NONCE:
                self.latest = max(self.latest, until)
            else:
                self._count(nonce, until)
        self.forget(self.latest)  # also cuts off half an entry, and opens the file for appending

    def use(self, nonce: bytes, until: int) -> None:
        """Count a use of a ticket durably.

        Raises:
            OSError: if the use cannot be written; it is then not counted, and the file is as before.
        """
        data, size = memoryview(_entry(nonce, until)), os.fstat(self._handle).st_size
        try:
            while data:
                data = data[os.write(self._handle, data) :]
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, size)
            raise
        self._count(nonce, until)

    def _count(self, nonce: bytes, until: int) -> None:
        earlier = self.seen.get(nonce, TicketUses(until, 0))
        self.seen[nonce] = TicketUses(until, earlier.number + 1)

    def forget(self, latest: int) -> None:
        """Remove the tickets that expired by time `latest`, and write the others to a new file."""
        self.latest = latest
        for nonce in [nonce for nonce, uses in self.seen.items() if uses.until <= latest]:
            del self.seen[nonce]
        entries = [_entry(_NO_NONCE, latest)]
        entries += [_entry(nonce, uses.until) * uses.number for nonce, uses in self.seen.items()]
        files.write_file(self._path, b"".join(entries), secret=True)
        files.flush_folder(self._path.parent)
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the file and release its lock."""
        os.close(self._handle)
        os.close(self._lock)


_NO_NONCE = bytes(NONCE_BYTES)


def _entry(nonce: bytes, until: int) -> bytes:
    head = _HEAD.pack(until, nonce)
    return head + _crc(head)


def _crc(head: bytes) -> bytes:
    return zlib.crc32(head).to_bytes(_CRC_BYTES, "big")


@dataclass(frozen=True)
class WaveTickets:
    """Issuer of tickets that limit each person to one report in the waves of their slot of a panel.

    A service that identifies its users issues one ticket to each person in every wave of their slot,
    and none in other waves. A collector accepts one report for each ticket (`tickets` with one use, also
    after a restart, and `Collector(reports_each=1)`). A ticket expires with its wave; if the collector
    has the panel, the report must be of the ticket's wave. So at most one report of a person is
    **accepted** in any `panel.window` consecutive waves, even if the device draws twice, or in a wave of
    another slot. (The device's ledger, `privot.waves.ledger`, limits what the device sends.)

    **Privacy review.** No value of a record is read. A ticket's nonce is a hash of the person's id under
    a key that is drawn for the wave and overwritten in the next. So a person who requests a ticket again
    gets the same one, although **no request is recorded**; and once a wave's key is overwritten, no
    nonce can be linked to a person, nor two nonces to each other. Until then the issuer could link a
    nonce to its person, so it must not see tickets used. Only the service can observe that a person
    takes part in no wave, because it never gets their request.

    A backup, a snapshot or free blocks of a disk may still contain an overwritten key. Somebody who
    finds it, knows the ids and sees the nonces of that wave can link each nonce to its person. So
    `path` should be in memory, or on an encrypted disk without backups. If a restart loses the key, a
    person can get a second ticket in that wave; the ledger still prevents a second draw. If the clock
    is set back, requests are refused.
    """

    panel: Panel  # schedule of the reports
    fingerprint: str  # fingerprint of the campaign's randomizer, 64 hexadecimal digits
    key: Ed25519PrivateKey  # private key that signs tickets; the collector has the public key
    path: Path  # file for the key of the current wave
    clock: Callable[[], float] = time.time  # function that returns the time, in seconds since 1970

    def give(self, person: str) -> str:
        """Return the ticket of a person in the current wave; the same at every request.

        Raises:
            NotAdmitted: if the wave is not one of the person's slot.
            PrivotError: before the first wave, after the last, if the clock was set back, or if the file
                of the key is damaged.
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
        """Return the key of a wave, whose first request draws it and overwrites the last one."""
        with files.holding_state():
            try:
                stored = json.loads(self.path.read_text(encoding="utf-8"))
                last, key = int(stored["wave"]), bytes.fromhex(stored["key"])
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
                files.write_json(self.path, {"wave": wave, "key": key.hex()})
        return key

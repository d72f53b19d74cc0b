"""Who may send: nobody is asked by default, or whoever holds a token or a signed ticket.

An admission is any function of the `Authorization` header's value and the campaign's fingerprint that
raises `NotAdmitted`, or returns who is `Admitted`, and until when. Two are here, both against floods and
neither about persons:

- `tokens`: `Bearer` and one of a file's tokens. All devices of one app have the same.
- `tickets`: `Ticket` and a text that a service of yours signed (Ed25519) for a device that it knows:
  the second until which it holds, a nonce, and the signature. Each admits so many requests.

**When a ticket is used up.** Not by a request that is refused before anything is stored (a slow body, a
busy collector, a batch of no use): the same ticket is good for the next attempt. A use is counted on
disk immediately before the reports are handed to the store, so that no crash lets a second report in.
From then until the answer, and if the store fails, the same reports may be sent again with the same
ticket (a store keeps a report once), and no others. After the acknowledgment nothing may. If the process
is killed between the count and the acknowledgment, the ticket is used up: at most one report, rather
than at least one.

Time is the latest that this process has seen, so a clock that runs backwards lets no ticket live
longer.

**Privacy review.** A ticket that was given to a person names that person to whoever gave it, if
they see it again. So a collector keeps of a ticket only its nonce, until it ends, and nothing that ties
it to a report: a digest of the reports is held in memory while they are not acknowledged, never on disk.
Who gives tickets must not be who sees them used. A token that all devices share names nobody.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from privot.collector.used_tickets import NONCE_BYTES, UsedTickets
from privot.errors import PrivotError

_LEAST_TOKEN = 16
_HEAD = struct.Struct(f">I{NONCE_BYTES}s")
_CONTEXT = b"privot ticket 1"
_MOST_TICKETS = 2**20


class NotAdmitted(PrivotError):  # noqa: N818 (an answer, not a fault)
    """The sender shows nothing that admits them."""


@dataclass(frozen=True)
class Admitted:
    """Who may send one request.

    Arguments:
        until: The second since 1970 until which; None without end.
    """

    until: int | None = None

    def use(self, content: bytes) -> None:
        """Count a use, durably, before the reports with this content are stored.

        Raises:
            NotAdmitted: if it was used up meanwhile.
        """

    def acknowledge(self, content: bytes) -> None:
        """Those reports are stored: they are not taken with it again."""


Admission = Callable[[str, str], Admitted]


def everybody(authorization: str, fingerprint: str) -> Admitted:
    """Asks for nothing."""
    return Admitted()


def tokens(path: Path) -> Admission:
    """Admits who sends `Authorization: Bearer` and a line of a file.

    Raises:
        PrivotError: if there is none in it, or a short one, which could be guessed.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        raise PrivotError(f"--token-file {path} cannot be read: check the path") from None
    held = [line.encode() for line in lines if line and not line.startswith("#")]
    if not held or min(map(len, held)) < _LEAST_TOKEN:
        raise PrivotError(
            f"--token-file {path} has no tokens, or short ones: write lines of {_LEAST_TOKEN} "
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
    """A ticket for one campaign, as a device sends it; with a fresh nonce if none is given."""
    head = _HEAD.pack(int(until), nonce or secrets.token_bytes(NONCE_BYTES))
    signed = key.sign(_CONTEXT + bytes.fromhex(fingerprint) + head)
    return "Ticket " + base64.urlsafe_b64encode(head + signed).decode()


def tickets(
    key: Ed25519PublicKey, path: Path, uses: int = 1, clock: Callable[[], float] = time.time
) -> Admission:
    """Admits who sends a ticket that was signed, and has not ended, `uses` times each.

    Arguments:
        key: Public half of that which signs.
        path: Of the file of used tickets, which a restart reads; of this process alone.
        uses: How often each ticket admits.
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
    """Which tickets were used, and for what that is not acknowledged."""

    def __init__(self, used: UsedTickets, uses: int, clock: Callable[[], float]) -> None:
        self.used, self._uses, self._clock = used, uses, clock
        self._latest = float(used.latest)
        self.open: dict[bytes, set[bytes]] = {}

    def require_usable(self, nonce: bytes, until: int, digest: bytes | None = None) -> None:
        """Refuse a ticket that has ended, or was used up by other reports than those of the digest.

        Before the reports are known, a ticket with unacknowledged ones is let through.
        """
        self._latest = max(self._latest, self._clock())
        waiting = self.open.get(nonce, set())
        again = bool(waiting) if digest is None else digest in waiting
        _, used = self.used.seen.get(nonce, (0, 0))
        if until <= self._latest or (used >= self._uses and not again):
            raise NotAdmitted("the ticket has ended, or was used up: get another")

    def require_room(self) -> None:
        """Refuse a ticket when 2²⁰ are stored; those that have ended are dropped first."""
        if len(self.used.seen) >= _MOST_TICKETS:
            self.used.forget(int(self._latest))
            self.open = {n: digests for n, digests in self.open.items() if n in self.used.seen}
        if len(self.used.seen) >= _MOST_TICKETS:
            raise NotAdmitted("too many tickets are in use: send it again later")


@dataclass(frozen=True, kw_only=True)
class _Ticket(Admitted):
    """A ticket that was signed and is not used up; between two awaits nobody else uses it."""

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

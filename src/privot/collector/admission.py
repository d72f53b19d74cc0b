"""Who may send: nobody is asked by default, or whoever holds a token or a signed ticket.

An admission is any function of the `Authorization` header's value and the campaign's fingerprint that
raises `NotAdmitted`, or returns the second until which who came is admitted (None: without end). Two are
here, both against floods and neither about persons:

- `tokens`: `Bearer` and one of a file's tokens. All devices of one app have the same.
- `tickets`: `Ticket` and a text that a service of yours signed (Ed25519) for a device that it knows:
  the second until which it holds, a nonce, and the signature. Each admits so many requests.

Time is the latest that this process has seen, so a clock that runs backwards lets no ticket live
longer.

**Privacy review.** A ticket that was given to a person names that person to whoever gave it, if
they see it again. So a collector keeps of a ticket only its nonce, in memory, until it ends; and
who gives tickets must not be who sees them used. A token that all devices share names nobody.
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
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from privot.collector.used_tickets import NONCE_BYTES, UsedTickets
from privot.errors import PrivotError

Admission = Callable[[str, str], int | None]
_LEAST_TOKEN = 16
_HEAD = struct.Struct(f">I{NONCE_BYTES}s")
_CONTEXT = b"privot ticket 1"
_MOST_TICKETS = 2**20


class NotAdmitted(PrivotError):  # noqa: N818 (an answer, not a fault)
    """The sender shows nothing that admits them."""


def everybody(authorization: str, fingerprint: str) -> None:
    """Asks for nothing."""


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

    def admit(authorization: str, fingerprint: str) -> None:
        kind, _, token = authorization.partition(" ")
        digest = hashlib.sha256(token.strip().encode()).digest()
        right = [hmac.compare_digest(digest, each) for each in known]
        if kind.lower() != "bearer" or not any(right):
            raise NotAdmitted("no token, or an unknown one: send Authorization: Bearer TOKEN")

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
    used_up = UsedTickets(path)
    seen, latest = used_up.seen, float(used_up.latest)

    def admit(authorization: str, fingerprint: str) -> int:
        nonlocal latest
        latest = max(latest, clock())
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
        _, used = seen.get(nonce, (0, 0))
        if until <= latest or used >= uses:
            raise NotAdmitted("the ticket has ended, or was used up: get another")
        if len(seen) >= _MOST_TICKETS:
            used_up.forget(int(latest))
        if len(seen) >= _MOST_TICKETS:
            raise NotAdmitted("too many tickets are in use: send it again later")
        used_up.use(nonce, until)
        return int(until)

    return admit

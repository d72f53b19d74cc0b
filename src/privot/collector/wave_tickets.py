r"""Tickets of waves: the promise of a panel, checked where reports are taken, without linking waves.

A service of yours that knows its people (by whom, it is not said here) gives each of them one ticket in
every wave of their slot, and none in any other. A collector takes one report for each ticket
(`privot.collector.admission.tickets` with one use, also after a restart, and
`Collector(reports_each=1)`), and a ticket ends with its wave;
of a campaign with a panel, the report has to be of the same wave as the ticket. So a
person whose device draws twice, or in a wave of others, has no second report taken:
what is **taken** of a person in any w consecutive waves is one report at most. (What their device has
sent to anybody is theirs to keep to: `privot.waves.ledger`.)

**Privacy review.** Adjacency: as for tickets; no value is seen. The nonce of a ticket is a keyed hash
of the person's id under a key that is drawn for the wave and overwritten with the next. So whoever asks
again gets the same ticket, and yet **nobody who came for a ticket is written down**; and once a wave's
key is gone, no nonce can be told to be of a person, nor two to be of one. Until then who gives tickets
could tell whose a nonce is: they must not be who sees them used. A person who takes part in no wave
looks like one who does, except to the service that they do not ask.

*Gone* is as gone as the file's old content. An overwritten key may live on in a backup, a snapshot, a
copy-on-write file system or free blocks of the disk; whoever finds it there, knows the ids and sees
nonces can tell whose each is, in that wave. Keep `path` where nothing stays: in memory (tmpfs), or on an
encrypted disk that no backup reads. If a restart loses the key, who has used a ticket gets another in
that wave, so that a device that draws twice has two reports taken; a ledger draws once all the same.

A clock that is set back finds a later wave's key, and is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.collector.admission import NONCE_BYTES, NotAdmitted, sign_ticket
from privot.disk.state import holding_state, write_down
from privot.errors import PrivotError
from privot.waves import Panel


@dataclass(frozen=True)
class WaveTickets:
    """Gives tickets to the people of a panel.

    Arguments:
        panel: Who reports when.
        fingerprint: Of the campaign's randomizer, 64 hexadecimal digits.
        key: That signs; the collector has its public half.
        path: Of the file with the key of the wave.
        clock: Seconds since 1970.
    """

    panel: Panel
    fingerprint: str
    key: Ed25519PrivateKey
    path: Path
    clock: Callable[[], float] = time.time

    def give(self, person: str) -> str:
        """The ticket of a person in the wave that it is now; the same however often they ask.

        Raises:
            NotAdmitted: where this is no wave of theirs.
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

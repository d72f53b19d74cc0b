r"""A device's ledger: what was drawn in which wave of which campaign; never a second draw in a slot.

A report is drawn under the journal's lock, written down and flushed, and handed out only then. Whoever
asks again in the same wave gets the same bytes, whatever the record says now. So for one ledger:

*No second draw.* A report that anybody has seen stands in the journal. A draw in wave t of a campaign
is made only if no entry of that campaign is within w − 1 waves of t, on either side: then any w
consecutive waves hold at most one draw of it, **whatever the clock shows**. A clock that was set back
finds later waves spent, and is refused; one that was set forward spends later waves, of which there are
T at most, so the ⌈T/w⌉ ε over all waves hold too. (Its reports say the wave of the clock, and
collectors may refuse them.)

*A lost ledger* (a new installation, cleared data) knows nothing of what was drawn. An object whose file
is removed or replaced while it lives refuses: what it knows of the beginning is the lost file's. A new
ledger **waits**: with a person's id that outlives it, until the next wave; with an id that it drew
itself, which has another slot, for w waves. What the lost one drew lies in the wave of the loss or
before, so that any w consecutive waves still hold one draw. With `wait=False` they hold one more for
each loss within them. Not covered either way: an older copy of the file restored, two devices of one
person, a clock set back before a ledger is begun.

*Several campaigns.* Promises to one person add up. The owner's limit is on all that was drawn, in every
campaign together, and what a wrong clock does to it is in `privot.waves.limit`.

**Privacy review.** Adjacency: one person's whole sequences of values. On the device only. The file
holds reports, which may leave, and times; it holds no value but the bits of trees, if there are any
(`privot.waves.tree_ledger`). Refusals depend on clock, panel and
earlier draws, never on a value; a record that cannot be used is refused before anything is drawn or
written.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privot.device.device import Device
from privot.device.report import Report
from privot.device.values import Record
from privot.device.words import NextWord, system_word
from privot.errors import PrivotError, printable
from privot.privacy import ApproximateDP, PureDP
from privot.privacy.guarantees.composition import guarantee_from_dict
from privot.waves.journal import Journal, holding
from privot.waves.limit import Limit, latest, losses
from privot.waves.panel import Panel

_FORMAT = 1


class NotDue(PrivotError):  # noqa: N818 (an answer, not a fault)
    """Nothing is drawn in this wave."""


class DeviceLedger:
    """Draws a person's reports, each once, and keeps them.

    Arguments:
        path: The file, on a local disk of the device.
        person: The id that puts this person into a slot, if there is one that outlives the file.
        limit: What its owner allows.
        wait: Whether a ledger that is new lets the waves go by in which a lost one may have reported.
        now: Seconds since 1970; the clock's by default.

    Raises:
        PrivotError: if the file is damaged, or another person's.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     DeviceLedger(Path(folder) / "ledger", "device 7", limit=Limit(8.0)).person
        'device 7'
    """

    def __init__(
        self,
        path: str | Path,
        person: str | None = None,
        *,
        limit: Limit | None = None,
        wait: bool = True,
        now: float | None = None,
    ) -> None:
        self.path, self.limit, self.wait = Path(path), limit, wait
        with holding(self.path) as journal:
            if not journal.lines:
                mine = secrets.token_hex(16) if person is None else person
                own = person is None
                begun = time.time() if now is None else now
                journal.append({"ledger": _FORMAT, "person": mine, "own_id": own, "begun": begun})
            self._head = journal.lines[0]
        if self._head.get("ledger") != _FORMAT:
            raise PrivotError(f"{printable(str(path))} is no ledger of this version: name another")
        if person is not None and person != self._head["person"]:
            raise PrivotError(
                f"{printable(str(path))} is another person's ledger: each person has one of their own"
            )

    @property
    def person(self) -> str:
        """The public id of whom it belongs to."""
        return str(self._head["person"])

    @contextmanager
    def holding(self) -> Iterator[Journal]:
        """The journal, while no other thread or process holds it.

        Raises:
            PrivotError: if the file is not the one that was opened: removed, or replaced by another.
        """
        with holding(self.path) as journal:
            if journal.lines[:1] != [self._head]:
                raise PrivotError(
                    f"{printable(str(self.path))} was removed or replaced since this ledger was opened: "
                    "restore it, or open it anew; a new one waits"
                )
            yield journal

    def report(
        self,
        device: Device,
        record: Record,
        panel: Panel,
        *,
        now: float | None = None,
        word: NextWord = system_word,
    ) -> Report:
        """The report of the wave that it is now: drawn, or what was drawn in it before.

        Arguments:
            device: Of the campaign's randomizer.
            record: The values of today.
            panel: Of the campaign.
            now: Seconds since 1970; the clock's by default.
            word: Where uniform 64-bit words come from.

        Raises:
            NotDue: where this wave is none of the person's, or too near to one that is spent.
            LimitReached: where the owner's limit would be passed.
            PrivotError: if the record cannot be used, the campaign's panel was another, or the
                randomizer promises nothing that adds up.
        """
        seconds = time.time() if now is None else now
        wave, promise = panel.wave_at(seconds), _promise_of(device)
        with self.holding() as journal:
            spent = self._spent(journal, panel)
            if wave not in spent:
                self._require_due(panel, wave, [*spent])
                self.require_within(panel, promise, journal, seconds)
                made = device.report(record, word=word, now=seconds).to_bytes()
                journal.append(
                    {
                        "campaign": panel.to_dict(),
                        "wave": wave,
                        "promise": promise.to_dict(),
                        "time": max(seconds, latest(journal.lines[1:])),
                        "report": base64.b64encode(made).decode(),
                    }
                )
                spent[wave] = made
        return Report.from_bytes(spent[wave])

    def reports(self, panel: Panel) -> dict[int, Report]:
        """All reports of a campaign by their waves, to be sent again as they are."""
        with self.holding() as journal:
            found = self._spent(journal, panel)
        return {wave: Report.from_bytes(made) for wave, made in found.items()}

    def spent(self, days: float | None = None, now: float | None = None) -> ApproximateDP:
        """What was drawn in the last days, or ever, in all campaigns together."""
        with self.holding() as journal:
            epsilon, delta = losses(journal.lines[1:], days, time.time() if now is None else now)
        return ApproximateDP(float(epsilon), float(delta))

    def begun_in(self, panel: Panel) -> int:
        """The wave in which this ledger was begun; below 0 before the first."""
        return int((self._head["begun"] - panel.start) // panel.length)

    def _spent(self, journal: Journal, panel: Panel) -> dict[int, bytes]:
        lines = lines_of(journal, panel.to_dict())
        return {int(line["wave"]): base64.b64decode(line["report"]) for line in lines}

    def _require_due(self, panel: Panel, wave: int, spent: list[int]) -> None:
        name, last = panel.name, max(spent, default=None)
        if last is not None and wave < last:
            raise NotDue(
                f"the clock shows wave {wave} of campaign {name!r}, and wave {last} is spent: set the "
                "clock; nothing is drawn in a wave before"
            )
        if not panel.is_due(self.person, wave):
            due = panel.next_wave(self.person, wave)
            when = "no more" if due is None else f"in wave {due}"
            raise NotDue(f"campaign {name!r} asks this person {when}, and it is wave {wave}")
        if last is not None and wave - last < panel.window:
            raise NotDue(
                f"wave {wave} of campaign {name!r} is less than {panel.window} waves after wave {last}, "
                "which is spent: keep the id of a person"
            )
        begun = self.begun_in(panel)
        least = begun + (panel.window if self._head["own_id"] else 1)
        if self.wait and begun >= 0 and wave < least:
            raise NotDue(
                f"this ledger is new, and a lost one may have reported in campaign {name!r}: it reports "
                f"from wave {least} on, and it is wave {wave}"
            )

    def require_within(
        self, panel: Panel, promise: PureDP | ApproximateDP, journal: Journal, now: float
    ) -> None:
        """Refuse what would pass the owner's limit; nothing of a tree's own answers counts twice."""
        if self.limit is None:
            return
        self.limit.require(panel.name, promise, journal.lines[1:], now)


def _promise_of(device: Device) -> PureDP | ApproximateDP:
    """What one report promises, if it is of a kind that sums of ε and δ are of."""
    promise = guarantee_from_dict(dict(device.promise))
    if not isinstance(promise, (PureDP, ApproximateDP)) or promise.neighboring != "local":
        raise PrivotError(
            f"the randomizer promises {type(promise).__name__} ({promise.neighboring}), which a ledger "
            "cannot add up: give one of local ε, or ε and δ"
        )
    return promise


def lines_of(journal: Journal, campaign: dict[str, Any]) -> list[dict[str, Any]]:
    """What a journal has of a campaign.

    Raises:
        PrivotError: if a campaign of that name was another.
    """
    found = [line for line in journal.lines[1:] if line["campaign"]["name"] == campaign["name"]]
    if any(line["campaign"] != campaign for line in found):
        raise PrivotError(
            f"campaign {campaign['name']!r} had another panel when this device reported: give "
            "that one; a changed panel is a campaign with a name of its own"
        )
    return found

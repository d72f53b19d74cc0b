r"""A device's ledger: what was drawn in which wave of which campaign; never a second draw in a slot.

A report is drawn under the journal's lock, written down and flushed, and handed out only then. Whoever
asks again in the same wave gets the same bytes, whatever the record says now. So for one ledger:

*No second draw.* A report that anybody has seen stands in the journal. A draw in wave t of a campaign
is made only if no entry of that campaign is within w − 1 waves of t, on either side: then any w
consecutive waves hold at most one draw of it, **whatever the clock shows**. A clock that was set back
finds later waves spent, and is refused; one that was set forward spends later waves, of which there are
T at most, so the ⌈T/w⌉ ε over all waves hold too. (Its reports say the wave of the clock, and
collectors may refuse them.)

*A lost ledger* (a new installation, cleared data) knows nothing of what was drawn. A new ledger
therefore **waits**: with a person's id that outlives it, until the next wave; with an id that it drew
itself, which has another slot, for w waves. What the lost one drew lies in the wave of the loss or
before, so that any w consecutive waves still hold one draw. With `wait=False` they hold one more for
each loss within them. Not covered either way: an older copy of the file restored, two devices of one
person, a clock set back before a ledger is begun.

*Several campaigns.* Promises to one person add up. The owner's `Limit` is on all that was drawn in any
so many days, in every campaign together: pure ε's add, and so do (ε, δ) component by component. Days
are those of the clock, which is taken to stand still while it shows less than it did at the last draw;
a clock that was set forward ages what was spent, and a limit without days it cannot move.

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
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from privot.device.device import Device
from privot.device.report import Report
from privot.device.values import Record
from privot.device.words import NextWord, system_word
from privot.errors import PrivotError, printable
from privot.privacy import ApproximateDP, PureDP
from privot.privacy.guarantees.composition import guarantee_from_dict
from privot.privacy.rounding import at_most, exactly, require_delta, require_finite
from privot.waves.journal import Journal, holding
from privot.waves.panel import Panel

_DAY = 86_400
_FORMAT = 1


class NotDue(PrivotError):  # noqa: N818 (an answer, not a fault)
    """Nothing is drawn in this wave."""


class LimitReached(PrivotError):  # noqa: N818 (an end, not a fault)
    """The owner of the device allows no more."""


@dataclass(frozen=True)
class Limit:
    """What the owner of a device allows all campaigns together.

    Arguments:
        epsilon: Sum of ε of all draws.
        days: In any so many days; for ever if None.
        delta: Sum of δ.

    Examples:
        >>> print(Limit(8.0, days=365))
        ε = 8 in any 365 days
    """

    epsilon: float
    days: float | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        require_finite("epsilon of a limit", self.epsilon)
        require_delta(self.delta)
        if self.days is not None:
            require_finite("days of a limit", self.days, positive=True)

    def __str__(self) -> str:
        delta = f", δ = {exactly(self.delta)}" if self.delta else ""
        when = "for ever" if self.days is None else f"in any {self.days:g} days"
        return f"ε = {exactly(self.epsilon)}{delta} {when}"


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
            PrivotError: if the record cannot be used, or the campaign's panel was another.
        """
        seconds = time.time() if now is None else now
        wave, promise = panel.wave_at(seconds), guarantee_from_dict(dict(device.promise))
        with holding(self.path) as journal:
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
                        "time": max(seconds, latest(journal)),
                        "report": base64.b64encode(made).decode(),
                    }
                )
                spent[wave] = made
        return Report.from_bytes(spent[wave])

    def reports(self, panel: Panel) -> dict[int, Report]:
        """All reports of a campaign by their waves, to be sent again as they are."""
        with holding(self.path) as journal:
            found = self._spent(journal, panel)
        return {wave: Report.from_bytes(made) for wave, made in found.items()}

    def spent(self, days: float | None = None, now: float | None = None) -> ApproximateDP:
        """What was drawn in the last days, or ever, in all campaigns together."""
        with holding(self.path) as journal:
            return _sum(journal, days, time.time() if now is None else now)

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
        epsilon, delta = _losses(journal, self.limit.days, now, panel.name)
        more, slack = _written(promise.epsilon), _written(getattr(promise, "delta", 0.0))
        most, most_slack = _written(self.limit.epsilon), _written(self.limit.delta)
        if epsilon + more > most or delta + slack > most_slack:
            added = f", δ = {at_most(float(delta), 3)}" if delta else ""
            raise LimitReached(
                f"campaign {panel.name!r} asks for {promise}: ε = {at_most(float(epsilon))}{added} is "
                f"spent, and the limit is {self.limit}; wait, or raise the limit"
            )


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


def latest(journal: Journal) -> float:
    """The time of the last line; 0 if there is none."""
    return max((float(line["time"]) for line in journal.lines[1:]), default=0.0)


def _losses(
    journal: Journal, days: float | None, now: float, asking: str = ""
) -> tuple[Fraction, Fraction]:
    """Sums of ε and of δ, of the numbers as they are written: three times 0.1 is 0.3.

    The answers of a tree are one promise, as of the last one; none for the campaign that asks.
    """
    since = -1.0 if days is None else max(now, latest(journal)) - days * _DAY
    counted: dict[Any, dict[str, float]] = {}
    for number, line in enumerate(journal.lines[1:]):
        name, tree = line["campaign"]["name"], "tree" in line["campaign"]
        if line["time"] > since and "promise" in line and not (tree and name == asking):
            counted[name if tree else number] = line["promise"]
    epsilon = sum((_written(each["epsilon"]) for each in counted.values()), Fraction(0))
    delta = sum((_written(each.get("delta", 0.0)) for each in counted.values()), Fraction(0))
    return epsilon, delta


def _written(number: float) -> Fraction:
    return Fraction(repr(float(number)))


def _sum(journal: Journal, days: float | None, now: float) -> ApproximateDP:
    epsilon, delta = _losses(journal, days, now)
    return ApproximateDP(float(epsilon), float(delta))

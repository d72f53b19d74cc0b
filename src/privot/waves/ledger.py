"""A device's ledger: what was drawn in which wave of which campaign; never a second draw in a slot.

A `Journal` is the file, a `Limit` what its owner allows, a `DeviceLedger` draws the reports. A report is
drawn under the journal's lock, written down and flushed, and handed out only then. A second call in the
same wave returns the same bytes, whatever the record says now. So for one ledger:

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
campaign together; what a wrong clock does to it: `Limit`.

**Privacy review.** Adjacency: one person's whole sequences of values. On the device only. The file
holds reports, which may leave, and times, and no value. Refusals depend on clock, panel and earlier
draws, never on a value; a record that cannot be used is refused before anything is drawn or written.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from privot.core.errors import PrivotError, printable
from privot.device.device import Device, Record
from privot.privacy import ApproximateDP, PureDP
from privot.privacy.guarantees import guarantee_from_dict
from privot.privacy.rounding import at_most, exactly, require_delta, require_finite
from privot.waves.panel import Panel
from privot.wire.draws import NextWord, system_word
from privot.wire.report import Report

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # stands for "no such module"

_SEAL = 16
# The beginning of a line; or room that a file got, and no content before the power was lost.
_BEGUN = re.compile(rb"[0-9a-f]{1,16}|[0-9a-f]{16} (\{[^\n]*)?|\0+", re.DOTALL)


@dataclass
class Journal:
    """The lines of a ledger's file, while nobody else can append; each is on the disk before its use.

    One file of a device, its owner's alone. A line is JSON and a seal, 16 digits of the SHA-256 of the
    seal before and the JSON, so that a line that was changed, moved or taken out is found. Lines are
    appended and flushed under a lock of all threads and processes; the folder is flushed with the first.

    *A kill at any moment.* A line without its end was not flushed, so nobody has seen what it holds: it
    is cut off, if it can be the beginning of one. A whole line may be in the machine's memory alone,
    where a kill came between its writing and its flush: what is read is flushed before anything follows
    from it. Any other damage, or another file, is refused and left as it is, and never taken for an
    empty journal.

    *Not detected*: an older copy of the whole file in its place, and last whole lines cut off.

    Arguments:
        path: The file, for refusals.
        lines: Content, as JSON gives it back.
    """

    path: Path
    lines: list[dict[str, Any]]
    _handle: int
    _seal: str = field(default="0" * _SEAL)

    def append(self, line: dict[str, Any]) -> None:
        """Append one line; it is on the disk when this returns.

        Raises:
            PrivotError: if it cannot be written; then nothing was.
        """
        if not self.lines:
            _flush_folder(self.path.parent)
        text, seal = _sealed(self._seal, line)
        whole = os.lseek(self._handle, 0, os.SEEK_END)
        try:
            written = os.write(self._handle, text)
            if written != len(text):
                raise OSError(28, "no space left")
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, whole)
            raise _cannot(self.path, "written", error) from None
        self.lines.append(line)
        self._seal = seal


@contextmanager
def holding(path: Path) -> Iterator[Journal]:
    """Hold the journal at a path, made if it is not there, so that no other thread or process can.

    Raises:
        PrivotError: if it cannot be read or written, or was damaged.
    """
    if fcntl is None:
        raise PrivotError("this system has no file locks that a ledger knows: use POSIX")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            journal = _read(path, handle)
        except BaseException:
            os.close(handle)
            raise
    except OSError as error:
        raise _cannot(path, "opened", error) from None
    try:
        yield journal
    finally:
        # A process forked meanwhile has the handle as well: closing would not let go of it.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _read(path: Path, handle: int) -> Journal:
    data = b""
    while block := os.pread(handle, 2**20, len(data)):
        data += block
    whole = data.rfind(b"\n") + 1
    seal, lines = "0" * _SEAL, []
    for number, text in enumerate(data[:whole].splitlines(), 1):
        try:
            line = json.loads(text[_SEAL + 1 :])
        except ValueError:
            line = None
        expected, after = _sealed(seal, line) if isinstance(line, dict) else (b"", "")
        if expected != text + b"\n":
            raise _damaged(path, number)
        seal = after
        lines.append(line)
    if whole < len(data):
        if not _BEGUN.fullmatch(data, whole):
            raise _damaged(path, len(lines) + 1)
        os.ftruncate(handle, whole)
    if lines:
        os.fsync(handle)
    return Journal(path, lines, handle, seal)


def _damaged(path: Path, number: int) -> PrivotError:
    return PrivotError(
        f"line {number} of {printable(str(path))} is damaged or no ledger's: restore the file; "
        "without it, what was reported in the last waves may be drawn a second time"
    )


def _sealed(before: str, line: dict[str, Any]) -> tuple[bytes, str]:
    text = json.dumps(line, sort_keys=True)
    seal = hashlib.sha256((before + text).encode()).hexdigest()[:_SEAL]
    return f"{seal} {text}\n".encode(), seal


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cannot(path: Path, what: str, error: OSError) -> PrivotError:
    words = f"{printable(str(path))} cannot be {what} ({error.strerror or error})"
    return PrivotError(f"{words}: give a file in a folder on a local disk, with room")


_DAY = 86_400

Draws = Sequence[Mapping[str, Any]]


class LimitReached(PrivotError):  # noqa: N818 (an end, not a fault)
    """A draw that the owner of the device does not allow."""


@dataclass(frozen=True)
class Limit:
    """Most that all campaigns together may draw on one device, as its owner allows.

    Promises to one person add up: pure ε's, and (ε, δ) component by component. A limit is on all draws
    ever, or on those of any so many days. A draw has the time of the clock, or of the draw before it if
    that is later, and counts as long as the clock shows less than that time and the days.

    *A clock that was set back* gives nothing back: all draws count that are not older than the days. *A
    clock that was set forward and right again* gives nothing back either: earlier draws count as before,
    and what was drawn meanwhile counts until that later time and the days have passed, which may be
    long. *While it stands forward*, what was spent is aged by it: whenever it is set forward by the days
    once more, the limit may be drawn once more. A device that has no other clock cannot know; a limit
    without days is the same under any clock.

    **Privacy review.** Sums of public numbers at public times; no value is looked at.

    Arguments:
        epsilon: Largest sum of ε of all draws.
        days: Length of the span that the sums are over; for ever if None.
        delta: Largest sum of δ.

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

    def require(
        self, campaign: str, promise: PureDP | ApproximateDP, draws: Draws, now: float
    ) -> None:
        """Refuse one more draw that would pass the limit.

        Arguments:
            campaign: Its name, for the refusal.
            promise: What one more draw adds.
            draws: The ledger's lines.
            now: Seconds since 1970.

        Raises:
            LimitReached: if the draw would pass the limit.
        """
        epsilon, delta = losses(draws, self.days, now)
        more, slack = _written(promise.epsilon), _written(getattr(promise, "delta", 0.0))
        most, most_slack = _written(self.epsilon), _written(self.delta)
        if epsilon + more > most or delta + slack > most_slack:
            added = f", δ = {at_most(float(delta), 3)}" if delta else ""
            raise LimitReached(
                f"campaign {campaign!r} asks for {promise}: ε = {at_most(float(epsilon))}{added} is "
                f"spent, and the limit is {self}; wait, or raise the limit"
            )


def latest(draws: Draws) -> float:
    """Return the time of the last draw; 0 if there is none."""
    return max((float(line["time"]) for line in draws), default=0.0)


def losses(draws: Draws, days: float | None, now: float) -> tuple[Fraction, Fraction]:
    """Return the sums of ε and of δ, of the numbers as they are written: three times 0.1 is 0.3."""
    since = -math.inf if days is None else now - days * _DAY
    counted = [line["promise"] for line in draws if line["time"] > since]
    epsilon = sum((_written(each["epsilon"]) for each in counted), Fraction(0))
    delta = sum((_written(each.get("delta", 0.0)) for each in counted), Fraction(0))
    return epsilon, delta


def _written(number: float) -> Fraction:
    """Return the decimal fraction that a number is written as."""
    return Fraction(repr(float(number)))


_FORMAT = 1


class NotDue(PrivotError):  # noqa: N818 (an answer, not a fault)
    """A wave in which nothing is drawn."""


class DeviceLedger:
    """A person's ledger, which draws one report a wave and stores each before it is sent.

    Arguments:
        path: The file, on a local disk of the device.
        person: The id that puts this person into a slot, if there is one that outlives the file.
        limit: Most that its owner allows.
        wait: Let a new ledger wait for the waves in which a lost one may have reported.
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
        """Public id of the person that it belongs to."""
        return str(self._head["person"])

    @contextmanager
    def holding(self) -> Iterator[Journal]:
        """Hold the journal, so that no other thread or process can.

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
        """Return the report of the present wave: drawn now, or as it was drawn in it before.

        Arguments:
            device: Device with the campaign's randomizer.
            record: Present values of the person's record.
            panel: The campaign's panel.
            now: Seconds since 1970; the clock's by default.
            word: Source of uniform 64-bit words.

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
                if self.limit is not None:
                    self.limit.require(panel.name, promise, journal.lines[1:], seconds)
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
        """Return all reports of a campaign by their waves, to be sent again as they are."""
        with self.holding() as journal:
            found = self._spent(journal, panel)
        return {wave: Report.from_bytes(made) for wave, made in found.items()}

    def spent(self, days: float | None = None, now: float | None = None) -> ApproximateDP:
        """Return the sum of the guarantees of all draws, or of those of the last `days`."""
        with self.holding() as journal:
            epsilon, delta = losses(journal.lines[1:], days, time.time() if now is None else now)
        return ApproximateDP(float(epsilon), float(delta))

    def _spent(self, journal: Journal, panel: Panel) -> dict[int, bytes]:
        """Return the reports of a campaign, by wave; refuse a campaign whose panel has changed."""
        campaign = panel.to_dict()
        found = [line for line in journal.lines[1:] if line["campaign"]["name"] == panel.name]
        if any(line["campaign"] != campaign for line in found):
            raise PrivotError(
                f"campaign {panel.name!r} had another panel when this device reported: give "
                "that one; a changed panel is a campaign with a name of its own"
            )
        return {int(line["wave"]): base64.b64decode(line["report"]) for line in found}

    def _require_due(self, panel: Panel, wave: int, spent: list[int]) -> None:
        """Refuse a wave that is not the person's, is too near to one spent, or may be a lost one's."""
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
        begun = int((self._head["begun"] - panel.start) // panel.length)
        least = begun + (panel.window if self._head["own_id"] else 1)
        if self.wait and begun >= 0 and wave < least:
            raise NotDue(
                f"this ledger is new, and a lost one may have reported in campaign {name!r}: it reports "
                f"from wave {least} on, and it is wave {wave}"
            )


def _promise_of(device: Device) -> PureDP | ApproximateDP:
    """Return the guarantee of one report; refused unless ε and δ of such reports add up."""
    promise = guarantee_from_dict(dict(device.promise))
    if not isinstance(promise, (PureDP, ApproximateDP)) or promise.neighboring != "local":
        raise PrivotError(
            f"the randomizer promises {type(promise).__name__} ({promise.neighboring}), which a ledger "
            "cannot add up: give one of local ε, or ε and δ"
        )
    return promise

"""Ledger of a device: a durable record of drawn reports, which prevents a second draw in a window.

A `Journal` is the file, a `Limit` is the largest privacy loss that the owner allows, and a
`DeviceLedger` draws the reports. Under the journal's lock a report is drawn, written and flushed; only
then is it returned. A second call in the same wave returns the same bytes, even if the record has
changed. For one ledger this implies:

*No second draw.* Every report that anybody has seen is in the journal. A report in wave t of a campaign
is drawn only if the campaign has no entry within w − 1 waves of t, on either side. So any w consecutive
waves contain at most one draw of the campaign, **whatever the clock shows**. If the clock was set back,
the ledger finds entries of later waves and refuses. If it was set forward, the ledger draws in later
waves too early; the panel still has T waves, so the ⌈T/w⌉ ε over all waves hold too. (Such reports state
the wave of the clock, and collectors may refuse them.)

*A lost ledger.* A new ledger, after a new installation or cleared data, has no entries of earlier draws.
So it **waits**: until the next wave if the person's id outlives the file, and for w waves if the ledger
draws a new id, which may have another slot. The lost ledger drew in the wave of the loss or before, so
any w consecutive waves still contain one draw; with `wait=False` they contain one more for each loss
within them. A ledger whose file is removed or replaced while in use refuses to draw. Not covered are a
restored older copy of the file, two devices of one person, and a clock set back before the creation.

*Shuffled reports* are encrypted to the analyst once, before they are stored: a report in two batches
would be identified by its report id. The ledger counts ε₀ of each report, which is an upper bound,
because a device cannot check that the shuffler is honest and the batch is large.

**Privacy review.** Adjacency: one person's whole sequences of values. The file is on the device only. It
contains times and reports, which may leave the device, but no value. Refusals depend on clock, panel and
earlier draws, never on a value; a record that cannot be used is refused before any draw.
"""

import base64
import errno
import hashlib
import json
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from privot.core.errors import PrivotError, printable, require_finite
from privot.core.files import close_locked, flush_folder, open_locked
from privot.device.device import Device, Record
from privot.privacy.guarantees import ApproximateDP, PureDP, guarantee_from_dict
from privot.privacy.rounding import at_most, exactly, require_delta
from privot.waves.panel import Panel
from privot.wire.draws import NextWord, system_word
from privot.wire.report import Report

_FORMAT = 1
_SEAL_DIGITS, _FIRST_SEAL = 16, "0" * 16  # the first line has no line before it
_DAY = 86_400  # seconds
# The beginning of a line, or zeros where a loss of power left allocated space without content.
_INCOMPLETE_LINE = re.compile(rb"[0-9a-f]{1,16}|[0-9a-f]{16} (\{[^\n]*)?|\0+", re.DOTALL)


@dataclass
class Journal:
    """Locked append-only file of a ledger; each line is on the disk before it is used.

    Only the device's owner may read the file. A line is a seal and JSON. The seal, 16 digits of the
    SHA-256 of the previous seal and the JSON, detects lines that were changed, moved or removed. Lines
    are appended and flushed under a lock; the first also flushes the folder.

    *A kill at any moment.* A line without a newline was not flushed, so nobody has seen its content: it
    is cut off, if it can be the beginning of a line. If the kill came between write and flush, a whole
    line may be in the machine's memory only, so lines that were read are flushed before they are used.
    Any other damage, or another file, is refused and left as it is.

    *Not detected*: an older copy of the whole file in its place, and complete lines missing at the end.

    Arguments:
        path: The file, for error messages.
        lines: Parsed JSON objects of the lines: the ledger's header, then one for each draw.
    """

    path: Path
    lines: list[dict[str, Any]]
    _handle: int
    _last_seal: str

    @property
    def draws(self) -> list[dict[str, Any]]:
        """Lines of the draws, oldest first."""
        return self.lines[1:]

    def append(self, line: dict[str, Any]) -> None:
        """Append one line, and flush it to the disk.

        Raises:
            PrivotError: if it cannot be written; the file is then as before.
        """
        if not self.lines:
            flush_folder(self.path.parent)
        text, seal = _sealed(self._last_seal, line)
        size_before = os.lseek(self._handle, 0, os.SEEK_END)
        try:
            written = os.write(self._handle, text)
            if written != len(text):
                raise OSError(errno.ENOSPC, "no space left")
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, size_before)
            raise _unusable_error(self.path, "written", error) from None
        self.lines.append(line)
        self._last_seal = seal


@contextmanager
def locked_journal(path: Path) -> Iterator[Journal]:
    """Lock the journal at a path against other threads and processes; create a missing file.

    Raises:
        PrivotError: if it cannot be read or written, or is damaged.
    """
    try:
        handle = open_locked(path, os.O_APPEND)
    except OSError as error:
        raise _unusable_error(path, "opened", error) from None
    try:
        try:
            journal = _read_journal(path, handle)
        except OSError as error:
            raise _unusable_error(path, "read", error) from None
        yield journal
    finally:
        close_locked(handle)


def _read_journal(path: Path, handle: int) -> Journal:
    """Read and verify the lines of a locked file, cut off an incomplete one, and flush them."""
    data = b""
    while block := os.pread(handle, 2**20, len(data)):
        data += block
    end = data.rfind(b"\n") + 1
    last_seal, lines = _FIRST_SEAL, []
    for number, text in enumerate(data[:end].splitlines(), 1):
        try:
            line = json.loads(text[_SEAL_DIGITS + 1 :])
        except ValueError:
            line = None
        expected, seal = _sealed(last_seal, line) if isinstance(line, dict) else (b"", "")
        if expected != text + b"\n":
            raise _damaged_error(path, number)
        last_seal = seal
        lines.append(line)
    if end < len(data):
        if not _INCOMPLETE_LINE.fullmatch(data, end):
            raise _damaged_error(path, len(lines) + 1)
        os.ftruncate(handle, end)
    if lines:
        os.fsync(handle)
    return Journal(path, lines, handle, last_seal)


def _damaged_error(path: Path, number: int) -> PrivotError:
    return PrivotError(
        f"line {number} of {printable(str(path))} is damaged or no ledger's: restore the file; "
        "without it, what was reported in the last waves may be drawn a second time"
    )


def _sealed(previous_seal: str, line: dict[str, Any]) -> tuple[bytes, str]:
    """Return a line as it is written, with its seal and the line break, and the seal."""
    text = json.dumps(line, sort_keys=True)
    seal = hashlib.sha256((previous_seal + text).encode()).hexdigest()[:_SEAL_DIGITS]
    return f"{seal} {text}\n".encode(), seal


def _unusable_error(path: Path, action: str, error: OSError) -> PrivotError:
    return PrivotError(
        f"{printable(str(path))} cannot be {action} ({error.strerror or error}): give a file in a "
        "folder on a local disk, with room"
    )


Draws = Sequence[Mapping[str, Any]]  # lines of a journal


class LimitReached(PrivotError):  # noqa: N818 (a state, not a fault)
    """Refusal of a draw beyond the limit of the device's owner."""


@dataclass(frozen=True)
class Limit:
    """Largest privacy loss that the owner of a device allows to all campaigns together.

    Guarantees to one person add up: ε and δ separately. A limit is on all draws ever, or on those of any
    period of `days`. The recorded time of a draw is the clock's, or that of the previous draw if later;
    a draw counts until the clock shows `days` more than its recorded time.

    *Wrong clocks.* Setting the clock back frees nothing, because draws of later times count as well.
    *While the clock is ahead*, earlier draws expire early: each time it is set forward by `days`, the
    limit may be spent once more. A device without another clock cannot detect this. When the clock is
    right again, the earlier draws count again, and draws made meanwhile count until `days` after their
    recorded, later time. A limit without days does not depend on the clock.

    **Privacy review.** Sums of public numbers at public times; no value is read.

    Arguments:
        epsilon: Largest sum of ε of all draws.
        days: Length of the period, in days, over which ε and δ are summed; None for all time.
        delta: Largest sum of δ.

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
        """Refuse another draw if it would exceed the limit.

        Arguments:
            campaign: Name of the campaign, for the error message.
            promise: Guarantee of the draw.
            draws: Earlier draws, as the ledger's lines.
            now: Seconds since 1970.

        Raises:
            LimitReached: if the draw would exceed the limit.
        """
        epsilon, delta = losses(draws, self.days, now)
        epsilon_after = epsilon + _as_decimal(promise.epsilon)
        delta_after = delta + _as_decimal(getattr(promise, "delta", 0.0))
        if epsilon_after > _as_decimal(self.epsilon) or delta_after > _as_decimal(self.delta):
            added = f", δ = {at_most(float(delta), 3)}" if delta else ""
            raise LimitReached(
                f"campaign {campaign!r} asks for {promise}: ε = {at_most(float(epsilon))}{added} is "
                f"spent, and the limit is {self}; wait, or raise the limit"
            )


def losses(draws: Draws, days: float | None, now: float) -> tuple[Fraction, Fraction]:
    """Return the exact sums of ε and of δ of the draws that count for a limit of `days`, at `now`."""
    since = -math.inf if days is None else now - days * _DAY
    promises = [line["promise"] for line in draws if line["time"] > since]
    epsilon = sum((_as_decimal(promise["epsilon"]) for promise in promises), Fraction(0))
    delta = sum((_as_decimal(promise.get("delta", 0.0)) for promise in promises), Fraction(0))
    return epsilon, delta


def _as_decimal(number: float) -> Fraction:
    """Return a number's shortest decimal notation as an exact fraction: three times 0.1 is 0.3."""
    return Fraction(repr(float(number)))


class NotDue(PrivotError):  # noqa: N818 (an answer, not a fault)
    """Refusal of a wave in which the person may not report."""


class DeviceLedger:
    """Ledger of a person, which draws at most one report a window and stores each before it is sent.

    Arguments:
        path: Path of the journal, on a local disk of the device.
        person: Id that determines the person's slot, if one outlives the file; drawn by default.
        limit: Largest privacy loss that the owner allows.
        wait: Whether a new ledger skips the waves in which a lost one may have reported.
        now: Time in seconds since 1970; by default, that of the clock.

    Raises:
        PrivotError: if the file is damaged, or another person's.

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
        with locked_journal(self.path) as journal:
            if not journal.lines:
                header = {
                    "ledger": _FORMAT,
                    "person": secrets.token_hex(16) if person is None else person,
                    "own_id": person is None,
                    "begun": time.time() if now is None else now,
                }
                journal.append(header)
            self._header = journal.lines[0]
        if self._header.get("ledger") != _FORMAT:
            raise PrivotError(f"{printable(str(path))} is no ledger of this version: name another")
        if person is not None and person != self._header["person"]:
            raise PrivotError(
                f"{printable(str(path))} is another person's ledger: each person has one of their own"
            )

    @property
    def person(self) -> str:
        """Public id of the person to whom the ledger belongs."""
        return str(self._header["person"])

    @contextmanager
    def holding(self) -> Iterator[Journal]:
        """Lock the journal against other threads and processes.

        Raises:
            PrivotError: if the file that was opened has been removed or replaced.
        """
        with locked_journal(self.path) as journal:
            if journal.lines[:1] != [self._header]:
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
        seal: Callable[[Report], Report] | None = None,
    ) -> Report:
        """Return the report of the current wave; the stored one if it was drawn before.

        Arguments:
            device: Device with the campaign's randomizer.
            record: Current values of the person's record.
            panel: The campaign's panel.
            now: Time in seconds since 1970; by default, that of the clock.
            word: Source of uniform 64-bit words.
            seal: Function that encrypts a report of a shuffled wave to the analyst of that wave.

        Raises:
            NotDue: if the person may not report in this wave, or reported fewer than w waves away.
            LimitReached: if the draw would exceed the owner's limit.
            PrivotError: if the record cannot be used, the campaign had another panel before, `seal` is
                missing for shuffled reports, or the randomizer's guarantee is neither ε nor (ε, δ).
        """
        if device.shuffled and seal is None:
            raise PrivotError("seal is missing, and reports are shuffled: give `seal_report`")
        seconds = time.time() if now is None else now
        wave, promise = panel.wave_at(seconds), _promise_of(device)
        with self.holding() as journal:
            drawn = self._reports_in(journal, panel)
            if wave not in drawn:
                self._require_due(panel, wave, [*drawn])
                if self.limit is not None:
                    self.limit.require(panel.name, promise, journal.draws, seconds)
                report = device.report(record, word=word, now=seconds)
                content = (report if seal is None else seal(report)).to_bytes()
                draw = {
                    "campaign": panel.to_dict(),
                    "wave": wave,
                    "promise": promise.to_dict(),
                    "time": max([seconds, *(float(line["time"]) for line in journal.draws)]),
                    "report": base64.b64encode(content).decode(),
                }
                journal.append(draw)
                drawn[wave] = content
        return Report.from_bytes(drawn[wave])

    def reports(self, panel: Panel) -> dict[int, Report]:
        """Return all stored reports of a campaign by wave, for sending them again unchanged."""
        with self.holding() as journal:
            drawn = self._reports_in(journal, panel)
        return {wave: Report.from_bytes(content) for wave, content in drawn.items()}

    def spent(self, days: float | None = None, now: float | None = None) -> ApproximateDP:
        """Return the sum of the guarantees of all draws, or of those of the last `days`."""
        with self.holding() as journal:
            epsilon, delta = losses(journal.draws, days, time.time() if now is None else now)
        return ApproximateDP(float(epsilon), float(delta))

    def _reports_in(self, journal: Journal, panel: Panel) -> dict[int, bytes]:
        """Return the reports of a campaign in binary form, by wave; refuse a changed panel."""
        campaign = panel.to_dict()
        draws = [line for line in journal.draws if line["campaign"]["name"] == panel.name]
        if any(line["campaign"] != campaign for line in draws):
            raise PrivotError(
                f"campaign {panel.name!r} had another panel when this device reported: give "
                "that one; a changed panel is a campaign with a name of its own"
            )
        return {int(line["wave"]): base64.b64decode(line["report"]) for line in draws}

    def _require_due(self, panel: Panel, wave: int, drawn: list[int]) -> None:
        """Refuse a wave outside the person's slot, too near an earlier draw, or of a lost ledger."""
        name, last = panel.name, max(drawn, default=None)
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
        begun = int((self._header["begun"] - panel.start) // panel.length)  # wave of the creation
        least = begun + (panel.window if self._header["own_id"] else 1)
        if self.wait and begun >= 0 and wave < least:
            raise NotDue(
                f"this ledger is new, and a lost one may have reported in campaign {name!r}: it reports "
                f"from wave {least} on, and it is wave {wave}"
            )


def _promise_of(device: Device) -> PureDP | ApproximateDP:
    """Return the guarantee of one report; raise PrivotError unless it is local ε, or ε and δ."""
    promise = guarantee_from_dict(dict(device.promise))
    if not isinstance(promise, (PureDP, ApproximateDP)) or promise.neighboring != "local":
        raise PrivotError(
            f"the randomizer promises {type(promise).__name__} ({promise.neighboring}), which a ledger "
            "cannot add up: give one of local ε, or ε and δ"
        )
    return promise

"""What arrives at a campaign: a request's body, read into records of one length, the rest refused.

A batch is refused as a whole where nobody can tell where its reports begin; else each report is
refused for itself, by a word for counters and a line for its sender. Only the form is looked at
here: version, fingerprint, extensions, length, checksum. Whether a device draws what a payload says
is asked when records are sealed, of many at once. A campaign with a panel takes reports of its waves
alone, and from who shows a ticket those of the ticket's wave.

**Privacy review.** No reason holds anything that was sent. A ticket's end is compared with the hour of
reports and forgotten: what is stored does not say by which ticket it came.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from privot.collector.records import Records, Words, hours_of, same_head
from privot.collector.segments import Form
from privot.device import Device, Report, read_batch, write_batch
from privot.device.report import VERSION, WireError
from privot.errors import PrivotError
from privot.release.collecting.payloads import Payloads
from privot.release.collecting.wave_releases import require_whole_hours, waves_of_hours
from privot.release.randomizer import Randomizer
from privot.release.reports.programs import TIME_STEP
from privot.waves import Panel

MOST_REPORTS = 1000
_MOST_BODY = 2**23
_OTHER_WAVE = (
    "a report is of another wave than is collected: report once, in the waves of your slot"
)
# A report's JSON beside its payload, with room for spaces.
_JSON_HEAD = 1024


class Refused(NamedTuple):
    """Why a report was not taken.

    Arguments:
        place: In the batch.
        reason: In a word, for counters.
        message: In a line, with a remedy.
    """

    place: int
    reason: str
    message: str

    def to_dict(self) -> dict[str, int | str]:
        """As its sender is told."""
        return {"index": self.place, "reason": self.reason, "message": self.message}


class Arrivals(NamedTuple):
    """What a body held.

    Arguments:
        records: Of the reports that can be stored (n, L).
        entries: Their ids and digests (n, 3).
        places: Their places in the batch.
        refused: The others.
    """

    records: Records
    entries: Words
    places: list[int]
    refused: list[Refused]


class Campaign:
    """One randomizer that reports are collected of.

    Arguments:
        text: The bytes of `randomizer.json`, as devices get them.
        signature: Of `randomizer.json.sig`, if there is one.
        panel: In which people report again; then reports say a wave of it.

    Raises:
        PrivotError: if it was altered, or devices cannot draw by it; if waves begin within an hour.
    """

    def __init__(
        self, text: bytes, signature: bytes | None = None, panel: Panel | None = None
    ) -> None:
        self.text, self.signature, self.panel = text, signature, panel
        if panel is not None:
            require_whole_hours(panel)
        self.randomizer = Randomizer.from_json(text)
        self.payloads = Payloads(self.randomizer)
        if Device.from_json(text.decode()).fingerprint != self.payloads.fingerprint:
            raise PrivotError(
                "the randomizer's text is not as it was written: write it again with `privot calibrate`"
            )
        self.fingerprint = self.randomizer.fingerprint
        empty = bytes(self.payloads.width)
        self.example = Report(self.payloads.fingerprint, bytes(16), 0, empty).to_bytes()
        self._form = Form(self.example, panel)
        self.read(write_batch([self.example]), as_json=False)  # compiles, before anybody waits

    @classmethod
    def load(cls, path: str | Path, panel: Panel | None = None) -> Self:
        """Read `randomizer.json`, and `randomizer.json.sig` beside it."""
        path = Path(path)
        signed = path.with_name(path.name + ".sig")
        try:
            return cls(path.read_bytes(), signed.read_bytes() if signed.exists() else None, panel)
        except OSError as error:
            raise PrivotError(
                f"randomizer {path} cannot be read ({error.strerror}): check the path"
            ) from None

    @property
    def record_bytes(self) -> int:
        """Length of every report."""
        return len(self.example)

    @property
    def most_reports(self) -> int:
        """How many a batch may have."""
        return max(1, min(MOST_REPORTS, _MOST_BODY // self.record_bytes))

    def most_bytes(self, as_json: bool) -> int:
        """How long a body may be."""
        each = _JSON_HEAD + 4 * self.record_bytes // 3 if as_json else 4 + self.record_bytes
        return 1024 + self.most_reports * each

    def waves_of(self, records: Records) -> NDArray[np.int64]:
        """The wave of each record (n,), of a campaign with a panel; −1 where there is none."""
        if self.panel is None:
            return np.zeros(len(records), np.int64)
        return waves_of_hours(self.panel, hours_of(records))

    def read(self, body: bytes, as_json: bool, until: int | None = None) -> Arrivals:
        """A batch, binary or JSON; of a campaign with a panel, the reports of its waves.

        Arguments:
            body: The request's.
            as_json: Whether it is JSON.
            until: The second at which the sender's ticket ends, if one was asked for: then all reports
                are to be of the wave that it is of.

        Raises:
            WireError: if it is none, or has too many reports (reason `many`).
        """
        refused: list[Refused] = []
        parts = _json_reports(body, refused) if as_json else list(read_batch(body))
        if not parts:
            raise WireError("empty", "the batch has no reports: send one at least")
        if len(parts) > self.most_reports:
            raise WireError(
                "many",
                f"the batch has {len(parts):,} reports: send at most {self.most_reports:,} at once",
            )
        long = [i for i, part in enumerate(parts) if len(part) == self.record_bytes]
        held = b"".join(parts[i] for i in long)
        records = np.frombuffer(held, np.uint8).reshape(len(long), self.record_bytes)
        right, entries = self._form.sums_of(records)
        right &= same_head(records, self.example)
        late = self._of_other_waves(records, until) & right
        right &= ~late
        refused += [Refused(long[row], "wave", _OTHER_WAVE) for row in np.flatnonzero(late)]
        places = [i for i, good in zip(long, right.tolist(), strict=True) if good]
        kept = {*places, *(each.place for each in refused)}
        refused += [self._refusal(i, p) for i, p in enumerate(parts) if i not in kept]
        refused.sort()
        return Arrivals(records[right], entries[right], places, refused)

    def _of_other_waves(self, records: Records, until: int | None) -> NDArray[np.bool_]:
        """Which records say no wave of the panel, or another than a ticket's."""
        if self.panel is None:
            return np.zeros(len(records), np.bool_)
        waves = self.waves_of(records)
        asked = waves if until is None else waves_of_hours(self.panel, _hour_before(until))
        return np.asarray((waves < 0) | (waves != asked))

    def _refusal(self, index: int, part: bytes) -> Refused:
        try:
            report = Report.from_bytes(part)
        except WireError as error:
            return Refused(index, error.reason, str(error))
        if report.fingerprint != self.payloads.fingerprint:
            words = "a report is of another randomizer: send it to that one's campaign"
            return Refused(index, "fingerprint", words)
        sent, right = len(report.payload), self.payloads.width
        words = f"a payload has {sent} bytes: this randomizer's have {right}"
        return Refused(index, "length", words)


def _json_reports(body: bytes, refused: list[Refused]) -> list[bytes]:
    """Binary forms of a JSON batch's reports; empty where one is refused."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise WireError(
            "format", "the body is no JSON: send a batch as specified, in UTF-8"
        ) from None
    if not isinstance(fields, dict) or sorted(fields) != ["reports", "version"]:
        raise WireError(
            "format", "the batch is no object of version, reports: send it as specified"
        )
    if type(fields["version"]) is not int or fields["version"] != VERSION:
        raise WireError("version", f"the batch has another version: this reads {VERSION}")
    if not isinstance(fields["reports"], list):
        raise WireError("format", "the batch's reports are no list: send it as specified")
    parts = []
    for index, each in enumerate(fields["reports"]):
        try:
            parts.append(Report.from_json(each).to_bytes())
        except WireError as error:
            parts.append(b"")
            refused.append(Refused(index, error.reason, str(error)))
    return parts


def _hour_before(until: int) -> NDArray[np.int64]:
    """The hour in which a ticket's last second lies."""
    return np.array([(until - 1) // TIME_STEP])

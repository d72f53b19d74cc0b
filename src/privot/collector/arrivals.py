"""Requests with reports of a campaign: read within limits, parsed into records, committed in groups.

- `read_body` reads a body, within limits of length, time and memory (`MemoryLimit`).
- `Campaign.read` splits it into the records of a `ParsedBatch`. A batch that cannot be split into
  reports is refused as a whole; otherwise reports are refused one by one. A campaign with a panel
  accepts only reports of its waves, and with a ticket only those of the ticket's wave.
- `GroupCommit` gives the records of all waiting requests to the store together. The store verifies them
  in one pass (version, fingerprint, extensions, checksum), because a pass for each report would take
  longer than the rest of its request. Sealing checks whether a device can have drawn a payload.

**Privacy review.** No refusal contains anything that was sent. A ticket's expiry is compared with the
hour of reports and not stored: stored records are not linked to tickets.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response
from starlette.types import Receive

from privot.collector.analyst import carrier_of
from privot.collector.store import (
    CRC_BYTES,
    PAYLOAD_AT,
    RecordFormat,
    Records,
    Statuses,
    Store,
    StoreStopped,
    Words,
)
from privot.collector.waves import require_whole_hours, waves_of_hours
from privot.core.errors import PrivotError
from privot.device import Device, Report, read_batch
from privot.randomizer.randomizer import TIME_STEP, Randomizer
from privot.randomizer.reports.payloads import Payloads
from privot.waves import Panel
from privot.wire.report import SEAL_BYTES, VERSION, WireError, batch_head

BATCH_TYPE = "application/vnd.privot.batch"
TYPES = (BATCH_TYPE, "application/json")
_MAX_MEMORY = 2**26  # bytes, of all requests together


class RefusedRequest(Exception):  # noqa: N818 (an answer, not a fault)
    """A request that is refused as a whole.

    Arguments:
        status: HTTP status.
        reason: One word, for counters.
        message: One line, with a remedy.
        close: Whether to close the connection without reading further content.
    """

    def __init__(self, status: int, reason: str, message: str, *, close: bool = False) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.close = status, reason, message, close


def json_response(
    fields: Mapping[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a response with a JSON object."""
    return Response(json.dumps(fields), status, headers, "application/json")


def refusal_response(refusal: RefusedRequest) -> Response:
    """Return the response to a refused request."""
    fields = {"error": {"reason": refusal.reason, "message": refusal.message}}
    headers = {"retry-after": "2"} if refusal.status in (429, 503, 507) else {}  # seconds
    if refusal.close:
        headers["connection"] = "close"
    return json_response(fields, refusal.status, headers)


class MemoryInUse(PrivotError):  # noqa: N818 (a state, not a fault)
    """The memory for requests is in use."""


class MemoryLimit:
    """Bound on the memory of bodies, as far as they have been read, and of waiting reports.

    Requests beyond the bound are refused; their senders may try again later. Memory is claimed as a body
    arrives, not for its declared length: otherwise a few dozen senders who declare long bodies and send
    nothing would block all others.

    Arguments:
        size: Number of bytes.
    """

    def __init__(self, size: int = _MAX_MEMORY) -> None:
        self.size, self.held = size, 0

    @contextmanager
    def claiming(self) -> Iterator[Callable[[int], None]]:
        """Provide a function that claims a number of bytes; the block's end releases all of them.

        The function raises MemoryInUse if fewer are left; a request that is alone may claim any number.
        """
        claimed = 0

        def claim(count: int) -> None:
            nonlocal claimed
            if self.held > claimed and self.held + count > self.size:
                raise MemoryInUse("the server is busy: send it again in a few seconds")
            self.held += count
            claimed += count

        try:
            yield claim
        finally:
            self.held -= claimed


Headers = Mapping[bytes, bytes]  # headers of a request, by their names in lower case


def is_json(headers: Headers, types: Sequence[str] = TYPES) -> bool:
    """Return whether a body is JSON rather than binary; refuse a type that is not in `types`."""
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if kind not in types or encoding != b"identity":
        message = f"the body's type is not accepted: send {' or '.join(types)}, not compressed"
        raise RefusedRequest(415, "type", message, close=True)
    return kind == "application/json"


def require_length(headers: Headers, max_bytes: int) -> None:
    """Refuse a body whose declared length is no number, or is above the maximum."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        message = "the length of the body is no number: send it"
        raise RefusedRequest(400, "format", message, close=True)
    if len(length) > 12 or int(length) > max_bytes:  # long texts take long to convert
        raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> RefusedRequest:
    message = f"the body is larger than {max_bytes:,} bytes: send fewer reports at once"
    return RefusedRequest(413, "large", message, close=True)


async def read_body(
    receive: Receive, max_bytes: int, seconds: float, claim: Callable[[int], None]
) -> bytes:
    """Read a whole body.

    Arguments:
        receive: ASGI's function that returns the next event of a request.
        max_bytes: Maximum length, in bytes.
        seconds: Maximum duration, in seconds.
        claim: Function that claims memory for a number of bytes (`MemoryLimit.claiming`).

    Raises:
        RefusedRequest: if the body is too long, takes too long, or does not end.
        MemoryInUse: if memory is short.
    """
    pieces: list[bytes] = []
    length, more = 0, True
    try:
        async with asyncio.timeout(seconds):
            while more:
                event = await receive()
                if event["type"] == "http.disconnect":
                    message = "the body does not end: send it whole"
                    raise RefusedRequest(400, "disconnected", message)
                pieces.append(piece := event.get("body", b""))
                claim(len(piece))
                if (length := length + len(piece)) > max_bytes:
                    raise _too_large(max_bytes)
                more = event.get("more_body", False)
    except TimeoutError:
        message = f"the body took longer than {seconds:g} seconds: send smaller batches"
        raise RefusedRequest(408, "slow", message, close=True) from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


MOST_REPORTS, MAX_BODY_BYTES = 1000, 2**23  # of a request
_OTHER_WAVE = "a report is of another wave than is collected: report in the waves of your slot"
# Bytes of a batch beside its reports, and of a report's JSON beside its payload, with room for spaces.
_BATCH_HEAD = _JSON_HEAD = 1024
_HEAD_BYTES = len(batch_head(0))


class RefusedReport(NamedTuple):
    """A report that is refused, in a batch whose other reports may be stored."""

    place: int  # position of the report in the batch
    reason: str  # one word, for counters
    message: str  # one line, with a remedy

    def to_dict(self) -> dict[str, int | str]:
        """Return the JSON object for the response."""
        return {"index": self.place, "reason": self.reason, "message": self.message}


class ParsedBatch(NamedTuple):
    """Parsed content of a body."""

    records: Records  # bytes of the reports of the right length (n, L), which the store verifies
    places: Sequence[int]  # positions of these reports in the batch
    refused: list[RefusedReport]  # refusals of the other reports


def equal_records(body: bytes, length: int) -> Records | None:
    """Return the records (n, L) of a binary batch if all have length L; else None."""
    count, rest = divmod(len(body) - _HEAD_BYTES, 4 + length)
    if rest or count < 1 or not body.startswith(batch_head(count)):
        return None
    framed = np.frombuffer(body, np.uint8, offset=_HEAD_BYTES).reshape(count, 4 + length)
    # Each report stands after its length.
    return framed[:, 4:] if framed[:, :4].tobytes() == length.to_bytes(4, "big") * count else None


def _json_reports(body: bytes) -> list[bytes | RefusedReport]:
    """Return each report of a JSON batch in binary, or its refusal."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise WireError("format", "the body is no JSON in UTF-8: send it as specified") from None
    if not isinstance(fields, dict) or sorted(fields) != ["reports", "version"]:
        raise WireError("format", "the batch is no object of version, reports: send one so")
    if type(fields["version"]) is not int or fields["version"] != VERSION:
        raise WireError("version", f"the batch has another version: this reads {VERSION}")
    if not isinstance(fields["reports"], list):
        raise WireError("format", "the batch's reports are no list: send it as specified")
    reports: list[bytes | RefusedReport] = []
    for place, report in enumerate(fields["reports"]):
        try:
            reports.append(Report.from_json(report).to_bytes())
        except WireError as error:
            reports.append(RefusedReport(place, error.reason, str(error)))
    return reports


class Campaign:
    """One randomizer whose reports are collected: splits batches into records, and refuses others.

    Arguments:
        text: The bytes of `randomizer.json`, as devices get them.
        signature: The bytes of `randomizer.json.sig`, if the file exists.
        panel: Schedule of repeated reports, if there is one; each report then belongs to a wave.

    Raises:
        PrivotError: if the text was altered, devices cannot draw from the randomizer, its reports are to
            be shuffled, or a wave of the panel does not begin at a full hour.
    """

    def __init__(
        self, text: bytes, signature: bytes | None = None, panel: Panel | None = None
    ) -> None:
        self.text, self.signature = text, signature
        if panel is not None:
            require_whole_hours(panel)
        self.randomizer = Randomizer.from_json(text)
        self._require_role()
        self.payloads = Payloads(self.randomizer)
        if Device.from_json(text.decode()).fingerprint != self.payloads.fingerprint:
            raise PrivotError(
                "the randomizer's text is not as it was written: write it again with `privot calibrate`"
            )
        self.fingerprint = self.randomizer.fingerprint
        empty = Report(self.payloads.fingerprint, bytes(16), 0, bytes(self.payloads.width))
        self.format = self._format_of(empty, panel)

    @classmethod
    def load(cls, path: str | Path, panel: Panel | None = None) -> Self:
        """Read `randomizer.json`, and `randomizer.json.sig` beside it if that exists."""
        path = Path(path)
        signed = path.with_name(path.name + ".sig")
        try:
            return cls(path.read_bytes(), signed.read_bytes() if signed.exists() else None, panel)
        except OSError as error:
            raise PrivotError(
                f"randomizer {path} cannot be read ({error.strerror}): check the path"
            ) from None

    def _require_role(self) -> None:
        """Refuse a randomizer whose reports this server must not receive unencrypted."""
        if self.randomizer.schema.shuffled_promise:
            raise PrivotError(
                f"the randomizer promises {self.randomizer.schema.promise}, and a collector would see "
                "who sent each report: start it with --role shuffler"
            )

    def _format_of(self, empty: Report, panel: Panel | None) -> RecordFormat:
        """Return the format of records, given a report whose id and payload are zero bytes."""
        return RecordFormat(empty.to_bytes(), panel)

    @property
    def most_reports(self) -> int:
        """Maximum number of reports in a batch."""
        return max(1, min(MOST_REPORTS, MAX_BODY_BYTES // self.format.record_bytes))

    def most_bytes(self, as_json: bool) -> int:
        """Return the maximum length of a body in bytes."""
        length = self.format.record_bytes
        # JSON contains each report in base64; a binary batch has its length in 4 bytes before it.
        report_bytes = _JSON_HEAD + 4 * length // 3 if as_json else 4 + length
        return _BATCH_HEAD + self.most_reports * report_bytes

    def read(self, body: bytes, as_json: bool, until: int | None = None) -> ParsedBatch:
        """Split a binary or JSON batch into records, and refuse reports of other lengths or waves.

        Arguments:
            body: Body of the request.
            as_json: Whether the body is JSON.
            until: Second since 1970 at which the sender's ticket expires, if there is one; with a
                panel, all reports must then be of the ticket's wave.

        Raises:
            WireError: if the body is no batch, or has too many reports (reason `many`).
        """
        batch = self._split(body, as_json)
        if until is None and self.format.panel is None:
            return batch
        # Only undamaged reports may use up a ticket, and have an hour.
        records, places, refused = batch
        valid = self.format.validate(records)[0]
        other_wave = valid & self._of_other_waves(records, until)
        for row in np.flatnonzero(~valid).tolist():
            refused.append(self.refusal(places[row], records[row].tobytes()))
        for row in np.flatnonzero(other_wave).tolist():
            refused.append(RefusedReport(places[row], "wave", _OTHER_WAVE))
        storable = np.flatnonzero(valid & ~other_wave).tolist()
        return ParsedBatch(records[storable], [places[row] for row in storable], refused)

    def _split(self, body: bytes, as_json: bool) -> ParsedBatch:
        """Separate the reports of the right length from the others."""
        length = self.format.record_bytes
        # A binary batch whose reports all have the campaign's length is read at once, as an array.
        records = None if as_json else equal_records(body, length)
        parts: Sequence[bytes | RefusedReport] = []
        if records is None:
            parts = _json_reports(body) if as_json else [*read_batch(body)]
        count = len(parts) if records is None else len(records)
        if not count:
            raise WireError("empty", "the batch has no reports: send one at least")
        if count > self.most_reports:
            message = f"the batch has {count:,} reports: send at most {self.most_reports:,} at once"
            raise WireError("many", message)
        if records is not None:
            return ParsedBatch(records, range(count), [])
        well_formed: dict[int, bytes] = {}
        refused: list[RefusedReport] = []
        for place, part in enumerate(parts):
            if isinstance(part, RefusedReport):
                refused.append(part)
            elif len(part) == length:
                well_formed[place] = part
            else:
                refused.append(self.refusal(place, part))
        records = np.frombuffer(b"".join(well_formed.values()), np.uint8).reshape(-1, length)
        return ParsedBatch(records, [*well_formed], refused)

    def _of_other_waves(self, records: Records, until: int | None) -> NDArray[np.bool_]:
        """Return a mask (n,) of records outside of the panel's waves, or not of the ticket's wave."""
        if (panel := self.format.panel) is None:
            return np.zeros(len(records), np.bool_)
        waves = self.format.waves_of(records)
        if until is None:
            return waves < 0
        last_hour = np.array([(until - 1) // TIME_STEP])  # in which the ticket is valid
        return np.asarray((waves < 0) | (waves != waves_of_hours(panel, last_hour)))

    def refusal(self, place: int, part: bytes) -> RefusedReport:
        """Return the refusal of one report that cannot be stored, given its place and its bytes."""
        try:
            report = Report.from_bytes(part)
        except WireError as error:
            return RefusedReport(place, error.reason, str(error))
        if report.fingerprint != self.payloads.fingerprint:
            message = "a report is of another randomizer: send it to that one's campaign"
            return RefusedReport(place, "fingerprint", message)
        sent, right = len(report.payload), self.payloads.width
        message = f"a payload has {sent} bytes: this randomizer's have {right}"
        return RefusedReport(place, "length", message)


class SealedRecordFormat(RecordFormat):
    """Format of sealed reports: the id of a valid one is the hash of its payload, and its time is 0."""

    def validate(self, records: Records) -> tuple[NDArray[np.bool_], Words]:
        valid, entries = super().validate(records)
        for row in np.flatnonzero(valid):
            sealed = records[row, PAYLOAD_AT:-CRC_BYTES].tobytes()
            expected = carrier_of(self.fingerprint, sealed).to_bytes()
            valid[row] = records[row].tobytes() == expected
        return valid, entries


class ShuffledCampaign(Campaign):
    """One randomizer whose sealed reports a shuffler receives, and cannot open.

    A shuffler needs public values only: the randomizer's fingerprint, the length of a report, and the
    minimum number of people in a batch.
    """

    def _require_role(self) -> None:
        if (promise := self.randomizer.schema.shuffled_promise) is None:
            raise PrivotError(
                "--role shuffler is of randomizers that promise shuffled reports, and this one promises "
                f"{self.randomizer.guarantee}: leave it out, or calibrate by a [promise]"
            )
        self.people = promise.people or 1  # minimum number of reports in a batch

    def _format_of(self, empty: Report, panel: Panel | None) -> RecordFormat:
        if panel is not None:
            raise PrivotError(
                f"--panel {panel.name!r} sorts reports by their hour, and sealed ones have none: leave "
                "it out, and give each wave a store of its own (--store wave-0), an address, and "
                "a key of its own (`privot waves new --keys keys/`)"
            )
        sealed = bytes(SEAL_BYTES + len(empty.to_bytes()))
        return SealedRecordFormat(carrier_of(empty.fingerprint, sealed).to_bytes())

    def refusal(self, place: int, part: bytes) -> RefusedReport:
        refusal = super().refusal(place, part)
        if refusal.reason != "length":
            return refusal
        message = "a report is not sealed for this campaign: seal it to the analyst's public key"
        return RefusedReport(place, "sealed", message)


_GROUP_ROWS = 2**16  # a group with as many reports takes no further request


class _Waiting(NamedTuple):
    """Reports of one request, and the future that will get their statuses."""

    records: Records
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Statuses]


class GroupCommit:
    """Group commit: one thread stores all waiting reports together, then answers their senders.

    While one group is flushed, the next one gathers, so a report waits for at most two flushes. A disk
    that flushes in four milliseconds writes 250 groups a second, of any size.

    Arguments:
        store: Store to which only this thread appends.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.waiting = 0
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="privot-writer", daemon=True)
        self._closed = False
        self._thread.start()

    async def append(self, records: Records) -> Statuses:
        """Store reports (n, L), and return each one's status (n,) once all new ones are durable.

        Raises:
            StoreFull, StoreStopped: as `Store.append`.
        """
        self.require_open()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Statuses] = loop.create_future()
        self.waiting += len(records)
        try:
            # If the sender disconnects, the reports are stored all the same.
            self._queue.put(_Waiting(records, loop, answer))
            return await answer
        finally:
            self.waiting -= len(records)

    def require_open(self) -> None:
        """Refuse reports once the writer is closed."""
        if self._closed:
            raise StoreStopped("the server is stopping: send it again later")

    def close(self) -> None:
        """Store the waiting reports, and end the thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        closed = False
        while not closed:
            group, closed = self._next_group()
            if group:
                self._commit(group)

    def _next_group(self) -> tuple[list[_Waiting], bool]:
        """Wait for a request; return all waiting requests, and whether the writer was closed."""
        group: list[_Waiting] = []
        rows = 0
        while rows < _GROUP_ROWS:
            try:
                waiting = self._queue.get(block=not group)
            except Empty:
                break
            if waiting is None:
                return group, True
            group.append(waiting)
            rows += len(waiting.records)
        return group, False

    def _commit(self, group: list[_Waiting]) -> None:
        """Store the reports of a group, and answer each request by its statuses, or by the error."""
        outcome: Statuses | Exception
        try:
            outcome = self.store.append(np.concatenate([request.records for request in group]))
        except Exception as error:  # any error must reach the waiting requests
            outcome = error
        by_loop: dict[asyncio.AbstractEventLoop, list[_Answered]] = {}
        start = 0
        for request in group:
            end = start + len(request.records)
            answer = outcome if isinstance(outcome, Exception) else outcome[start:end]
            by_loop.setdefault(request.loop, []).append((request.answer, answer))
            start = end
        for loop, answered in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, answered)


_Answered = tuple[asyncio.Future[Statuses], Statuses | Exception]


def _resolve(answered: list[_Answered]) -> None:
    for future, answer in answered:
        if future.done():
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)

"""The collector's HTTP interface, as an ASGI application.

| request | answer |
|---|---|
| `POST /v1/campaigns/FINGERPRINT/reports` | the outcome of each report, once new ones are durable |
| `GET /v1/campaigns/FINGERPRINT/randomizer.json` | the randomizer, byte for byte; `.sig` its signature |
| `GET /healthz` | 503 once the server is stopping, or a store in a folder has failed; otherwise 200 |
| `GET /metrics` | counters for Prometheus |

A batch is `application/vnd.privot.batch` or `application/json`. The answer is JSON: the numbers of
`accepted` and `duplicates` (both are stored, and the device may remove them), and `failed`, a list of
`index`, `reason` and `message` of each other report. Its status is 200 if any report is stored, else
422. A request that is refused as a whole gets another status, and `{"error": {"reason", "message"}}`;
after 429, 503 and 507 the sender should try again later.

`Collector` is the application, `Server` runs it with uvicorn, `Metrics` has its counters, and a `Sealer`
moves stored reports into a release.

**Several collectors** of one campaign, behind any load balancer, share a store in PostgreSQL, whose key
makes each report accepted once. A sender whose collector fails can send the same report to any other. A
store in a folder can be used by one process only.

**Privacy review.** Requests are not logged: neither sender, nor time, nor content. Counts of reports
and durations of answers are summed over all senders since the start. Metrics, each time they are read,
and the log line of each sealing reveal these counts, and so how many people took part until then, and
nothing else; a proxy should restrict `/metrics` and `/healthz` to operators. An answer contains nothing
that was sent.
"""

import asyncio
import logging
import socket
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import psycopg
import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from privot.collector import arrivals
from privot.collector.admission import Admission, Admitted, NotAdmitted, everybody
from privot.collector.folder import FolderStore
from privot.collector.postgres import SealedElsewhere
from privot.collector.sealing import ReleaseStorage, seal, write_shuffled
from privot.collector.store import DELETED, DUPLICATE, INVALID, NEW, StoreFull, StoreStopped
from privot.core.errors import PrivotError
from privot.wire.report import WireError

_BUCKET_ENDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds


class Metrics:
    """Counters of one campaign, for Prometheus."""

    def __init__(self) -> None:
        self.received = self.accepted = self.duplicates = 0
        self.refused: Counter[str] = Counter()
        self._times = [0] * (len(_BUCKET_ENDS) + 1)
        self._seconds = 0.0

    def answered(self, seconds: float) -> None:
        """Count a request in the histogram of durations, in seconds."""
        self._times[bisect_left(_BUCKET_ENDS, seconds)] += 1
        self._seconds += seconds

    def counts(self) -> dict[str, Any]:
        """Return the numbers of reports since the start, for a log."""
        counts = {"received": self.received, "accepted": self.accepted}
        return counts | {"duplicates": self.duplicates, "refused": dict(self.refused)}

    def lines(self, labels: str) -> list[tuple[str, str, str]]:
        """Return name, labels and value of each counter."""
        counters = [
            ("privot_reports_received_total", labels, str(self.received)),
            ("privot_reports_accepted_total", labels, str(self.accepted)),
            ("privot_reports_duplicate_total", labels, str(self.duplicates)),
        ]
        for reason in sorted(self.refused):
            with_reason = f'{labels},reason="{reason}"'
            counters.append(("privot_refused_total", with_reason, str(self.refused[reason])))
        total = 0  # buckets of Prometheus are cumulative
        for end, count in zip((*_BUCKET_ENDS, "+Inf"), self._times, strict=True):
            total += count
            counters.append(("privot_request_seconds_bucket", f'{labels},le="{end}"', str(total)))
        counters.append(("privot_request_seconds_sum", labels, f"{self._seconds:.6f}"))
        counters.append(("privot_request_seconds_count", labels, str(total)))
        return counters


_KINDS = {
    "privot_reports_received_total": ("counter", "Reports in batches that could be read."),
    "privot_reports_accepted_total": ("counter", "Reports stored."),
    "privot_reports_duplicate_total": ("counter", "Reports that were stored already."),
    "privot_refused_total": ("counter", "Reports and whole requests refused."),
    "privot_request_seconds": ("histogram", "From a request's head to its answer."),
    "privot_stored_reports": ("gauge", "Reports in the store."),
    "privot_disk_bytes": ("gauge", "Bytes of the store on its disk."),
    "privot_waiting_reports": ("gauge", "Reports that wait for the writer."),
    "privot_held_bytes": ("gauge", "Memory claimed by requests."),
}


def exposition(lines: list[tuple[str, str, str]]) -> str:
    """Return counters (name, labels and value of each) in Prometheus's text format, version 0.0.4."""
    text = []
    for name, (kind, description) in _KINDS.items():
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        samples = [line for line in lines if line[0] in {name + suffix for suffix in suffixes}]
        if samples:
            text += [f"# HELP {name} {description}", f"# TYPE {name} {kind}"]
        for sample, labels, value in samples:
            text.append(f"{sample}{{{labels}}} {value}" if labels else f"{sample} {value}")
    return "\n".join(text) + "\n"


# Answers to errors after which nothing was stored: HTTP status, reason, whether to close the connection.
_UNSTORED: dict[type[Exception], tuple[int, str, bool]] = {
    NotAdmitted: (401, "admission", True),
    arrivals.MemoryInUse: (429, "busy", True),
    StoreFull: (507, "full", False),
    StoreStopped: (503, "stopped", False),
}
_DELETED = "its report was deleted, and is not accepted again: remove it"
_Call = Callable[[Scope, Receive], Awaitable[Response]]


@dataclass
class ServedCampaign:
    """Campaign that a collector serves, with the writer of its store and its counters."""

    campaign: arrivals.Campaign
    writer: arrivals.GroupCommit  # writer of its store
    metrics: Metrics = field(default_factory=Metrics)  # counters of its requests and reports


class Collector:
    """ASGI application that collects reports of campaigns, or shares (`privot.aggregated.app`).

    Arguments:
        campaigns: The campaigns, each with its writer and counters.
        admit: Admission of senders.
        origins: Origins of pages whose scripts may send reports; none by default.
        body_seconds: Maximum duration of a body's transfer, in seconds.
        memory: Limit of the memory for bodies and waiting reports.
        log: Callback for operator messages about internal errors.
        reports_each: Maximum number of reports in a request; 1 if each ticket is for one report.
    """

    _root_path = "/v1/campaigns/{fingerprint}"
    _post_path, _text_path = "/reports", "/randomizer.json"
    _types: tuple[str, ...] = arrivals.TYPES
    _unstored: ClassVar[dict[int, tuple[str, str]]] = {DELETED: ("deleted", _DELETED)}
    _failed_status = (200, 422)  # of an answer if some reports are not stored, and if none is

    def __init__(
        self,
        campaigns: Sequence[ServedCampaign],
        admit: Admission = everybody,
        origins: Sequence[str] = (),
        *,
        body_seconds: float = 30.0,
        memory: arrivals.MemoryLimit | None = None,
        log: Callable[[str], None] = lambda line: None,
        reports_each: int = arrivals.MOST_REPORTS,
    ) -> None:
        self.served = campaigns
        self.stopping = False
        self.unassigned = Metrics()  # counters of requests to no campaign
        self._admit, self._seconds, self._log = admit, body_seconds, log
        self._memory, self._reports_each = memory or arrivals.MemoryLimit(), reports_each
        # Counters and handler of each method of each path.
        self._routes: dict[str, dict[str, tuple[Metrics, _Call]]] = {
            "/healthz": {"GET": (self.unassigned, self._health)},
            "/metrics": {"GET": (self.unassigned, self._metrics)},
        }
        for served in campaigns:
            metrics = served.metrics
            root = self._root_path.format(fingerprint=served.campaign.fingerprint)
            text, signature = partial(self._randomizer, served), partial(self._signature, served)
            self._routes |= {
                root + self._post_path: {"POST": (metrics, partial(self._post, served))},
                root + self._text_path: {"GET": (metrics, text)},
                f"{root}{self._text_path}.sig": {"GET": (metrics, signature)},
            }
        self.app: Any = self
        if origins:
            methods, headers = ["GET", "POST"], ["authorization", "content-type"]
            self.app = CORSMiddleware(self, origins, methods, headers, max_age=86_400)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with status 500 after an unexpected error, and count it if it is refused."""
        if scope["type"] != "http":  # ASGI's "lifespan", which is optional
            raise NotImplementedError(scope["type"])
        metrics = self.unassigned
        try:
            metrics, call = self._routed(scope)
            response = await call(scope, receive)
        except arrivals.RefusedRequest as refusal:
            metrics.refused[refusal.reason] += 1
            response = arrivals.refusal_response(refusal)
        except Exception as error:  # its message might contain what was sent: log only its type
            self._log(f"a request failed by a fault of the server ({type(error).__name__})")
            metrics.refused["fault"] += 1
            message = "the server failed: send it again later"
            response = arrivals.refusal_response(arrivals.RefusedRequest(500, "fault", message))
        await response(scope, receive, send)

    def _routed(self, scope: Scope) -> tuple[Metrics, _Call]:
        """Return the counters and the handler of a request's path and method; refuse unknown ones."""
        methods = self._routes.get(scope["path"].removeprefix(scope.get("root_path", "")))
        if methods is None:
            path = self._root_path.format(fingerprint="FINGERPRINT") + self._post_path
            message = f"there is nothing here: post to {path}"
            raise arrivals.RefusedRequest(404, "path", message, close=True)
        method = scope["method"]
        if (routed := methods.get("GET" if method == "HEAD" else method)) is None:
            message = "this path takes another method: POST reports, GET the rest"
            raise arrivals.RefusedRequest(405, "method", message, close=True)
        return routed

    async def _post(self, served: ServedCampaign, scope: Scope, receive: Receive) -> Response:
        """Admit the sender, read the body, store its reports, and return the answer."""
        began = time.monotonic()
        try:
            headers, campaign = dict(scope["headers"]), served.campaign
            as_json = arrivals.is_json(headers, self._types)
            self._require_open()
            authorization = headers.get(b"authorization", b"").decode("latin-1")
            sender = self._admit(authorization, campaign.fingerprint)
            max_bytes = campaign.most_bytes(as_json)
            arrivals.require_length(headers, max_bytes)
            with self._memory.claiming() as claim:
                body = await arrivals.read_body(receive, max_bytes, self._seconds, claim)
                batch = campaign.read(body, as_json, sender.until)
                count, limit = len(batch.places) + len(batch.refused), self._reports_each
                if count > limit:
                    message = f"the batch has {count:,} reports: send at most {limit:,} at once"
                    raise WireError("many", message)
                return self._answer(served, batch, await self._store(served, batch, sender))
        except WireError as error:
            status = 413 if error.reason == "many" else 400
            raise arrivals.RefusedRequest(status, error.reason, str(error)) from None
        except tuple(_UNSTORED) as error:
            status, reason, close = _UNSTORED[type(error)]
            raise arrivals.RefusedRequest(status, reason, str(error), close=close) from None
        finally:
            served.metrics.answered(time.monotonic() - began)

    async def _store(
        self, served: ServedCampaign, batch: arrivals.ParsedBatch, sender: Admitted
    ) -> list[int]:
        """Store a batch with one use of the sender's right; return the status of each report."""
        if not len(batch.records):
            return []
        served.writer.require_open()
        content = b"" if sender.until is None else batch.records.tobytes()
        sender.use(content)
        statuses: list[int] = (await served.writer.append(batch.records)).tolist()
        if NEW in statuses or DUPLICATE in statuses:
            sender.acknowledge(content)
        return statuses

    def _require_open(self) -> None:
        if self.stopping:
            message = "the server is stopping: send it again later"
            raise arrivals.RefusedRequest(503, "stopping", message, close=True)

    async def _randomizer(self, served: ServedCampaign, *_: object) -> Response:
        return Response(served.campaign.text, media_type="application/json")

    async def _signature(self, served: ServedCampaign, *_: object) -> Response:
        if served.campaign.signature is None:
            message = "it is not signed: pin its fingerprint instead"
            raise arrivals.RefusedRequest(404, "unsigned", message)
        return Response(served.campaign.signature, media_type="text/plain")

    async def _health(self, *_: object) -> Response:
        self._require_open()
        for served in self.served:
            if reason := getattr(served.writer.store, "stopped", ""):
                raise arrivals.RefusedRequest(503, "stopped", reason)
        return arrivals.json_response({"status": "ok"})

    async def _metrics(self, *_: object) -> Response:
        lines = self.unassigned.lines('campaign="none"')
        for served in self.served:
            labels, store = f'campaign="{served.campaign.fingerprint[:16]}"', served.writer.store
            lines += served.metrics.lines(labels)
            disk_bytes = await asyncio.to_thread(store.disk_bytes)
            count = await asyncio.to_thread(getattr, store, "count")  # which may query a database
            lines.append(("privot_stored_reports", labels, str(count)))
            lines.append(("privot_disk_bytes", labels, str(disk_bytes)))
            lines.append(("privot_waiting_reports", labels, str(served.writer.waiting)))
        lines.append(("privot_held_bytes", "", str(self._memory.held)))
        return Response(exposition(lines), media_type="text/plain; version=0.0.4")

    def _answer(
        self, served: ServedCampaign, batch: arrivals.ParsedBatch, statuses: list[int]
    ) -> Response:
        """Count the reports of a batch by outcome, and return the response with these numbers."""
        accepted, duplicates = statuses.count(NEW), statuses.count(DUPLICATE)
        failed, metrics = batch.refused, served.metrics
        if accepted + duplicates < len(statuses):
            for row, (place, status) in enumerate(zip(batch.places, statuses, strict=True)):
                if status in self._unstored:
                    failed.append(arrivals.RefusedReport(place, *self._unstored[status]))
                elif status == INVALID:
                    failed.append(served.campaign.refusal(place, batch.records[row].tobytes()))
        metrics.received += accepted + duplicates + len(failed)
        metrics.accepted += accepted
        metrics.duplicates += duplicates
        metrics.refused.update(refused.reason for refused in failed)
        fields = {
            "accepted": accepted,
            "duplicates": duplicates,
            "failed": [refused.to_dict() for refused in sorted(failed)],
        }
        status = self._failed_status[not (accepted or duplicates)] if failed else 200
        return arrivals.json_response(fields, status)


_HEAD_SECONDS, _MAX_HEAD_BYTES = 10.0, 2**15
_CONNECTIONS, _BACKLOG = 4096, 2048
_STOP_SECONDS = 30  # in which running requests may finish


class BoundedProtocol(HttpToolsProtocol):
    """HTTP protocol that limits the duration and the length of a request's head; uvicorn does not."""

    _timer: asyncio.TimerHandle | None = None
    _head_bytes, _in_head = 0, True

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first head."""
        super().connection_made(transport)
        self._limit()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._in_head = False
        self._limit()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin another head on the same connection."""
        super().on_message_begin()
        self._head_bytes, self._in_head = 0, True

    def on_headers_complete(self) -> None:
        """End the head."""
        self._in_head = False
        self._limit()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Limit the time of a head that has not arrived as a whole, and refuse one that is too long."""
        super().data_received(data)
        self._limit()
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self._refuse(431, "the request's head is too long: send fewer headers")

    def _limit(self) -> None:
        """Start the time limit if a head is incomplete; stop it otherwise."""
        if self._in_head and self._timer is None:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self._late)
        elif not self._in_head and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        self._refuse(408, "the request's head took too long: send it at once")

    def _refuse(self, status: int, message: str) -> None:
        if not self.transport.is_closing():
            head = f"HTTP/1.1 {status} Refused\r\nconnection: close\r\ncontent-type: text/plain\r\n"
            rest = f"content-length: {len(message)}\r\n\r\n{message}"
            self.transport.write((head + rest).encode())
            self.transport.close()


class Server(uvicorn.Server):
    """Uvicorn's server, which stops its application at a signal."""

    collector: Collector

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Refuse reports from now on (503); the signal is not raised again at the orderly end."""
        self.collector.stopping = self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port (0 for any free one), or raise PrivotError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise PrivotError(
            f"--port {port} of {host} cannot be listened on ({error.strerror}): give another"
        ) from None
    return listener


@dataclass(frozen=True)
class Sealer:
    """Sealing of one campaign, which never runs twice at once."""

    served: ServedCampaign  # the campaign with its store
    storage: ReleaseStorage  # destination of the shards
    log: Callable[..., None]  # callback for operator messages, with named numbers
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def seal(self) -> None:
        """Seal all stored records, and log the outcome; after a failure they remain stored."""
        with self._lock:
            try:
                outcome = self._seal()
            except SealedElsewhere:  # another collector of the campaign seals, as is intended
                return
            except (PrivotError, OSError, MemoryError, psycopg.Error) as error:
                # Further lines of a database's error may quote a row.
                line = str(error).partition("\n")[0] or "no memory"
                self.log(f"not sealed, and nothing is lost: {line}")
                return
        if outcome:
            campaign, counts = self.served.campaign.fingerprint[:16], self.served.metrics.counts()
            self.log(f"{campaign}: {outcome}", campaign=campaign, **counts)

    def _seal(self) -> str:
        """Seal, and return the outcome in words; an empty text if there was nothing to seal."""
        sealed = seal(self.served.writer.store, self.served.campaign, self.storage)
        if sealed is None:
            return ""
        others = f", {sealed.quarantined:,} in quarantine" if sealed.quarantined else ""
        return f"sealed {sealed.rows:,} reports{others}; {sealed.total:,} in the release"


class Shuffler(Sealer):
    """Sealer that writes batches of encrypted reports, each with at least the promise's people."""

    def _seal(self) -> str:
        store, campaign = self.served.writer.store, self.served.campaign
        assert isinstance(campaign, arrivals.ShuffledCampaign)
        assert isinstance(store, FolderStore)  # as its command requires
        # An interrupted batch is finished first; the reports after it may be enough for another.
        sizes = iter(partial(write_shuffled, store, campaign, self.storage), None)
        return "; ".join(f"a batch of {size:,} sealed reports is written" for size in sizes)


def serve(
    collector: Collector, listener: socket.socket, sealers: Sequence[Sealer], seal_seconds: float
) -> None:
    """Serve until a signal; then refuse new reports, answer waiting requests, and seal.

    **Privacy review.** Uvicorn logs no requests; its error messages contain neither addresses nor times.
    It ignores headers with the sender's address, which is not used.

    Arguments:
        collector: The application.
        listener: Its listening socket.
        sealers: Sealers of the campaigns.
        seal_seconds: Seconds between sealings; 0 to seal only at the end.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = Server(_config(collector))
    server.collector = collector

    async def run() -> None:
        sealing = asyncio.create_task(_seal_repeatedly(sealers, seal_seconds))
        try:
            await server.serve([listener])
        finally:
            sealing.cancel()

    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(run())
    for served in collector.served:
        served.writer.close()
    for sealer in sealers:
        sealer.seal()
        sealer.served.writer.store.close()


def _config(collector: Collector) -> uvicorn.Config:
    return uvicorn.Config(
        collector.app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )


async def _seal_repeatedly(sealers: Sequence[Sealer], seconds: float) -> None:
    while seconds:
        await asyncio.sleep(seconds)
        for sealer in sealers:
            await asyncio.to_thread(sealer.seal)

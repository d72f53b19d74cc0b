"""The collector's HTTP interface, as an ASGI application.

| request | answer |
|---|---|
| `POST /v1/campaigns/FINGERPRINT/reports` | the outcome of each report, once new ones are durable |
| `GET /v1/campaigns/FINGERPRINT/randomizer.json` | the randomizer, byte for byte; `.sig` its signature |
| `GET /healthz` | 200 while reports are accepted, otherwise 503 |
| `GET /metrics` | counters for Prometheus |

A batch is `application/vnd.privot.batch` or `application/json`. The answer is JSON: the numbers of
`accepted` and `duplicates` (both are stored, and the device may remove them), and `failed`, a list of
`index`, `reason` and `message` of each other report. Its status is 200 if any report is stored, else
422. A request that is refused as a whole gets another status, and `{"error": {"reason", "message"}}`;
after 429, 503 and 507 the sender should try again later.

`Metrics` counts, `Collector` is the application, `Server` runs it with uvicorn, and `Sealer` seals.

**Privacy review.** Requests are not logged: neither sender, nor time, nor content. Counts of reports
and durations of answers are summed over all senders since the start. They reveal the number of
participants, so a proxy should restrict `/metrics` and `/healthz` to operators. An answer contains
nothing that was sent.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from privot.collector.admission import Admission, Admitted, NotAdmitted, everybody
from privot.collector.arrivals import (
    MOST_REPORTS,
    TYPES,
    Campaign,
    GroupCommit,
    MemoryInUse,
    MemoryLimit,
    ParsedBatch,
    RefusedReport,
    RefusedRequest,
    ShuffledCampaign,
    is_json,
    read_body,
    refusal_response,
    require_length,
)
from privot.collector.folder import FolderStore
from privot.collector.sealing import ReleaseStorage, seal, write_shuffled
from privot.collector.store import DELETED, DUPLICATE, NEW, StoreFull, StoreStopped
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
    """Return counters in Prometheus's text format, version 0.0.4."""
    text = []
    for name, (kind, words) in _KINDS.items():
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        samples = [line for line in lines if line[0] in {name + suffix for suffix in suffixes}]
        if samples:
            text += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
        for sample, labels, value in samples:
            text.append(f"{sample}{{{labels}}} {value}" if labels else f"{sample} {value}")
    return "\n".join(text) + "\n"


# Status, reason, and whether the connection is closed, of errors after which nothing was stored.
_UNSTORED: dict[type[Exception], tuple[int, str, bool]] = {
    NotAdmitted: (401, "admission", True),
    MemoryInUse: (429, "busy", True),
    StoreFull: (507, "full", False),
    StoreStopped: (503, "stopped", False),
}
_DELETED = "its report was deleted, and is not accepted again: remove it"
_KNOWN = {
    404: ("path", "there is nothing here: post to {}"),
    405: ("method", "this path takes another method: POST reports, GET the rest"),
}


@dataclass
class ServedCampaign:
    """Campaign that a collector serves, with the writer of its store and its counters.

    Arguments:
        campaign: The campaign.
        writer: Writer of its store.
    """

    campaign: Campaign
    writer: GroupCommit
    metrics: Metrics = field(default_factory=Metrics)


class Collector:
    """ASGI application that collects reports of campaigns, or shares (`privot.aggregated.app`).

    Arguments:
        campaigns: The campaigns, each with its writer and counters.
        admit: Admission of senders.
        origins: Origins of pages whose scripts may send reports; none by default.
        body_seconds: Maximum duration of a body's transfer, in seconds.
        memory: Limit of the memory for bodies and waiting reports.
        log: Callback for operator messages about internal errors.
        reports_each: Maximum number of reports in a request, such as a ticket allows.
    """

    _at, _posts, _text = "/v1/campaigns/{fingerprint}", "/reports", "/randomizer.json"  # paths
    _types: tuple[str, ...] = TYPES
    _unstored: ClassVar[dict[int, tuple[str, str]]] = {DELETED: ("deleted", _DELETED)}
    _failed_status = (200, 422)  # if some of a request's reports are not stored; if none is

    def __init__(
        self,
        campaigns: Sequence[ServedCampaign],
        admit: Admission = everybody,
        origins: Sequence[str] = (),
        *,
        body_seconds: float = 30.0,
        memory: MemoryLimit | None = None,
        log: Callable[[str], None] = lambda line: None,
        reports_each: int = MOST_REPORTS,
    ) -> None:
        self.served = {served.campaign.fingerprint: served for served in campaigns}
        self.stopping = False
        self.unassigned = Metrics()  # of requests to no campaign
        self._admit, self._seconds, self._log = admit, body_seconds, log
        self._memory, self._reports_each = memory or MemoryLimit(), reports_each
        self.app = self._application(origins)

    def _application(self, origins: Sequence[str]) -> Starlette:
        routes = [
            Route(self._at + self._posts, self._post, methods=["POST"]),
            Route(self._at + self._text, self._randomizer, methods=["GET"]),
            Route(f"{self._at}{self._text}.sig", self._signature, methods=["GET"]),
            Route("/healthz", self._health, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
        ]
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
            max_age=86_400,
        )

        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            yield
            self.stopping = True
            for served in self.served.values():
                await asyncio.to_thread(served.writer.close)

        return Starlette(
            routes=routes,
            middleware=[cors] if origins else [],
            exception_handlers={HTTPException: self._http_error, RefusedRequest: self._refuse},
            lifespan=lifespan,
        )

    async def _post(self, request: Request) -> Response:
        """Answer a batch of reports, and count the request whatever happens."""
        began = time.monotonic()
        metrics = self.unassigned
        try:
            served = self._served(request)
            metrics = served.metrics
            return await self._accept(served, request)
        except RefusedRequest as refusal:
            metrics.refused[refusal.reason] += 1
            return refusal_response(refusal)
        except ClientDisconnect:
            metrics.refused["disconnected"] += 1
            return Response(status_code=400)
        except Exception as error:  # its message might contain what was sent: log only its type
            self._log(f"a request failed by a fault of the server ({type(error).__name__})")
            metrics.refused["fault"] += 1
            words = "the server failed: send it again later"
            return refusal_response(RefusedRequest(500, "fault", words))
        finally:
            metrics.answered(time.monotonic() - began)

    async def _accept(self, served: ServedCampaign, request: Request) -> Response:
        """Admit the sender, read the body, store its reports, and return the answer."""
        as_json, campaign = is_json(request, self._types), served.campaign
        self._require_open()
        try:
            sender = self._admit(request.headers.get("authorization", ""), campaign.fingerprint)
            most_bytes = campaign.most_bytes(as_json)
            require_length(request, most_bytes)
            with self._memory.claiming() as claim:
                body = await read_body(request, most_bytes, self._seconds, claim)
                batch = campaign.read(body, as_json, sender.until)
                count, most = len(batch.places) + len(batch.refused), self._reports_each
                if count > most:
                    words = f"the batch has {count:,} reports: send at most {most:,} at once"
                    raise WireError("many", words)
                statuses = await self._store(served, batch, sender)
                return self._answer(served.metrics, batch, statuses)
        except WireError as error:
            status = 413 if error.reason == "many" else 400
            raise RefusedRequest(status, error.reason, str(error)) from None
        except tuple(_UNSTORED) as error:
            status, reason, close = next(v for k, v in _UNSTORED.items() if isinstance(error, k))
            raise RefusedRequest(status, reason, str(error), close=close) from None

    async def _store(
        self, served: ServedCampaign, batch: ParsedBatch, sender: Admitted
    ) -> list[int]:
        if not len(batch.records):
            return []
        content = batch.records.tobytes()
        served.writer.require_open()
        sender.use(content)
        statuses = (await served.writer.append(batch.records, batch.entries)).tolist()
        if NEW in statuses or DUPLICATE in statuses:
            sender.acknowledge(content)
        return statuses

    def _served(self, request: Request) -> ServedCampaign:
        if served := self.served.get(request.path_params["fingerprint"]):
            return served
        words = "no such campaign is collected here: check the fingerprint in the address"
        raise RefusedRequest(404, "campaign", words, close=True)

    def _require_open(self) -> None:
        if self.stopping:
            words = "the server is stopping: send it again later"
            raise RefusedRequest(503, "stopping", words, close=True)

    async def _randomizer(self, request: Request) -> Response:
        served = self._served(request)
        return Response(served.campaign.text, media_type="application/json")

    async def _signature(self, request: Request) -> Response:
        campaign = self._served(request).campaign
        if campaign.signature is None:
            words = "it is not signed: pin its fingerprint instead"
            raise RefusedRequest(404, "unsigned", words)
        return Response(campaign.signature, media_type="text/plain")

    async def _health(self, request: Request) -> Response:
        self._require_open()
        return JSONResponse({"status": "ok"})

    async def _metrics(self, request: Request) -> Response:
        lines = self.unassigned.lines('campaign="none"')
        for fingerprint, served in self.served.items():
            labels, store = f'campaign="{fingerprint[:16]}"', served.writer.store
            lines += served.metrics.lines(labels)
            disk = await asyncio.to_thread(store.disk_bytes)
            count = await asyncio.to_thread(getattr, store, "count")
            lines.append(("privot_stored_reports", labels, str(count)))
            lines.append(("privot_disk_bytes", labels, str(disk)))
            lines.append(("privot_waiting_reports", labels, str(served.writer.waiting)))
        lines.append(("privot_held_bytes", "", str(self._memory.held)))
        return PlainTextResponse(exposition(lines), media_type="text/plain; version=0.0.4")

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        reason, words = _KNOWN.get(
            status, ("request", "the request cannot be used: see the manual")
        )
        words = words.format(self._at.format(fingerprint="FINGERPRINT") + self._posts)
        self.unassigned.refused[reason] += 1
        return refusal_response(RefusedRequest(status, reason, words, close=True))

    async def _refuse(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedRequest)
        self.unassigned.refused[error.reason] += 1
        return refusal_response(error)

    def _answer(self, metrics: Metrics, batch: ParsedBatch, statuses: list[int]) -> Response:
        accepted, duplicates = statuses.count(NEW), statuses.count(DUPLICATE)
        failed = [*batch.refused]
        if accepted + duplicates < len(statuses):
            for place, status in zip(batch.places, statuses, strict=True):
                if status in self._unstored:
                    failed.append(RefusedReport(place, *self._unstored[status]))
        metrics.received += len(statuses) + len(batch.refused)
        metrics.accepted += accepted
        metrics.duplicates += duplicates
        metrics.refused.update(each.reason for each in failed)
        fields = {
            "accepted": accepted,
            "duplicates": duplicates,
            "failed": [each.to_dict() for each in sorted(failed)],
        }
        status = self._failed_status[not (accepted or duplicates)] if failed else 200
        return JSONResponse(fields, status_code=status)


_HEAD_SECONDS, _HEAD_BYTES = 10.0, 2**15
_CONNECTIONS, _BACKLOG = 4096, 2048
_STOP_SECONDS = 30


class BoundedProtocol(HttpToolsProtocol):
    """HTTP protocol that limits the duration and the length of a request's head; uvicorn does not."""

    _timer: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first head."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._expect_nothing()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Start the time limit of another head on the same connection."""
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Stop the time limit: the head is complete."""
        self._expect_nothing()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Refuse a head that is too long."""
        super().data_received(data)
        if self._timer is not None:
            self._head += len(data)
            if self._head > _HEAD_BYTES:
                self._refuse(431, "the request's head is too long: send fewer headers")

    def _expect_head(self) -> None:
        self._expect_nothing()
        self._timer = self.loop.call_later(_HEAD_SECONDS, self._late)

    def _expect_nothing(self) -> None:
        self._head = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        self._refuse(408, "the request's head took too long: send it at once")

    def _refuse(self, status: int, words: str) -> None:
        if not self.transport.is_closing():
            head = f"HTTP/1.1 {status} Refused\r\nconnection: close\r\ncontent-type: text/plain\r\n"
            rest = f"content-length: {len(words)}\r\n\r\n{words}"
            self.transport.write((head + rest).encode())
            self.transport.close()


class Server(uvicorn.Server):
    """Uvicorn's server, which stops applications at a signal: its own, and those of other servers.

    Arguments:
        config: Uvicorn's settings.
        collector: Its application.
        others: Servers of this process that stop with it; None for one that catches no signals.
    """

    def __init__(
        self, config: uvicorn.Config, collector: Collector, others: Sequence[Server] | None
    ) -> None:
        super().__init__(config)
        self._collector, self._others = collector, others

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Catch signals during a `with` block, unless another server does."""
        with nullcontext() if self._others is None else super().capture_signals():
            yield

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Refuse reports from now on (503); the signal is not raised again at the orderly end."""
        for server in (self, *(self._others or ())):
            server._collector.stopping = server.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(kind, socket.SOCK_STREAM)
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
    """Sealing of one campaign, which never runs twice at once.

    Arguments:
        served: The campaign with its store.
        storage: Destination of the shards.
        log: Callback for operator messages.
    """

    served: ServedCampaign
    storage: ReleaseStorage
    log: Callable[[str], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def seal(self) -> None:
        """Seal all stored records, and log the outcome; after a failure they remain stored."""
        with self._lock:
            try:
                outcome = self._sealed()
            except (PrivotError, OSError) as error:
                self.log(f"not sealed, and nothing is lost: {error}")
                return
        if outcome:
            self.log(f"{self.served.campaign.fingerprint[:16]}: {outcome}")

    def _sealed(self) -> str:
        """Seal, and return the outcome in words; an empty text if there was nothing to seal."""
        sealed = seal(self.served.writer.store, self.served.campaign, self.storage)
        if sealed is None:
            return ""
        aside = f", {sealed.quarantined:,} in quarantine" if sealed.quarantined else ""
        return f"sealed {sealed.rows:,} reports{aside}; {sealed.total:,} in the release"


class Shuffler(Sealer):
    """Writes batches of sealed reports in random order, each of the promise's people at least."""

    def _sealed(self) -> str:
        store, campaign = self.served.writer.store, self.served.campaign
        assert isinstance(campaign, ShuffledCampaign)
        if not isinstance(store, FolderStore):
            raise PrivotError("a shuffler keeps sealed reports in a folder: give one as --store")
        # A batch that broke off is finished first, and what came after it may be one by now.
        sizes = iter(partial(write_shuffled, store, campaign, self.storage), None)
        return "; ".join(f"a batch of {size:,} sealed reports is written" for size in sizes)


def serve(
    collectors: Sequence[tuple[Collector, socket.socket]],
    sealers: Sequence[Sealer],
    seal_seconds: float,
) -> None:
    """Serve until a signal; then refuse new reports, answer waiting requests, and seal.

    **Privacy review.** Uvicorn logs no requests; its error messages contain neither addresses nor times.
    It ignores headers about the sender's address, which is not used.

    Arguments:
        collectors: Applications, each with its listening socket.
        sealers: Sealers of the campaigns.
        seal_seconds: Seconds between sealings; 0 to seal only at the end.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    others = [Server(_config(each), each, None) for each, _ in collectors[1:]]
    first = Server(_config(collectors[0][0]), collectors[0][0], others)
    listening = zip([first, *others], collectors, strict=True)

    async def run() -> None:
        sealing = asyncio.create_task(_seal_repeatedly(sealers, seal_seconds))
        try:
            await asyncio.gather(*(server.serve([socket]) for server, (_, socket) in listening))
        finally:
            sealing.cancel()

    with asyncio.Runner(loop_factory=first.config.get_loop_factory()) as runner:
        runner.run(run())
    for sealer in sealers:
        sealer.seal()
        sealer.served.writer.store.close()


def _config(collector: Collector) -> uvicorn.Config:
    return uvicorn.Config(
        collector.app,
        http=BoundedProtocol,
        ws="none",
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

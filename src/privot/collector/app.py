"""The collector's HTTP interface, as an ASGI application.

| request | answer |
|---|---|
| `POST /v1/campaigns/FINGERPRINT/reports` | which of a batch's reports are stored, once they are |
| `GET /v1/campaigns/FINGERPRINT/randomizer.json` | the randomizer, to its byte; `.sig` its signature |
| `GET /healthz` | 200 while reports are taken, 503 else |
| `GET /metrics` | counters for Prometheus |

A batch is `application/vnd.privot.batch` or `application/json`. The answer is JSON: `accepted` and
`duplicates` (both are kept: forget them on the device), and `failed`, a list of `index`, `reason`
and `message` of those that are not. Its status is 200 if any report is kept, else 422. What is
refused as a whole has another status, and `{"error": {"reason", "message"}}`; 429, 503 and 507
mean: later.

**Privacy review.** Nothing of a request is logged: not its sender, not its time, not its content;
what is counted is summed over everybody (`privot.collector.metrics`). An answer holds nothing that
was sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from privot.collector.admission import Admission, Admitted, NotAdmitted, everybody
from privot.collector.arrivals import MOST_REPORTS, Arrivals, Campaign, Refused
from privot.collector.bodies import Refusal, body_of, is_json, refusal_answer, require_length
from privot.collector.committing import GroupCommit, NoRoom, Room
from privot.collector.ids import DELETED, DUPLICATE, NEW
from privot.collector.metrics import Metrics, exposition
from privot.collector.store import StoreFull, StoreStopped
from privot.device.report import WireError

_DELETED = "its report was deleted, and is not taken again: forget it"
_KNOWN = {
    404: ("path", "there is nothing here: post to /v1/campaigns/FINGERPRINT/reports"),
    405: ("method", "this path takes another method: POST reports, GET the rest"),
}


@dataclass
class Desk:
    """One campaign that reports are taken for.

    Arguments:
        campaign: Whose reports.
        writer: Of its store.
    """

    campaign: Campaign
    writer: GroupCommit
    metrics: Metrics = field(default_factory=Metrics)


class Collector:
    """Takes reports of some campaigns.

    Arguments:
        desks: One for each campaign.
        admit: Who may send.
        origins: Of pages whose scripts may send; none by default.
        body_seconds: How long a sender may take for a body.
        room: For bodies and waiting reports.
        told: Takes lines for people, about faults of ours.
        reports_each: Most reports of one request, where a ticket stands for so many.
    """

    def __init__(
        self,
        desks: Sequence[Desk],
        admit: Admission = everybody,
        origins: Sequence[str] = (),
        *,
        body_seconds: float = 30.0,
        room: Room | None = None,
        told: Callable[[str], None] = lambda line: None,
        reports_each: int = MOST_REPORTS,
    ) -> None:
        self.desks = {desk.campaign.fingerprint: desk for desk in desks}
        self.stopping = False
        self.elsewhere = Metrics()
        self._admit, self._seconds, self._told = admit, body_seconds, told
        self._room, self._each = room or Room(), reports_each
        self.app = self._application(origins)

    def _application(self, origins: Sequence[str]) -> Starlette:
        at = "/v1/campaigns/{fingerprint}"
        routes = [
            Route(f"{at}/reports", self._post, methods=["POST"]),
            Route(f"{at}/randomizer.json", self._randomizer, methods=["GET"]),
            Route(f"{at}/randomizer.json.sig", self._signature, methods=["GET"]),
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
            for desk in self.desks.values():
                await asyncio.to_thread(desk.writer.close)

        return Starlette(
            routes=routes,
            middleware=[cors] if origins else [],
            exception_handlers={HTTPException: self._elsewhere, Refusal: self._refuse},
            lifespan=lifespan,
        )

    async def _post(self, request: Request) -> Response:
        began = time.monotonic()
        metrics = self.elsewhere
        try:
            desk = self._desk(request)
            metrics = desk.metrics
            return await self._take(desk, request)
        except Refusal as refusal:
            metrics.refused[refusal.reason] += 1
            return refusal_answer(refusal)
        except ClientDisconnect:
            metrics.refused["disconnected"] += 1
            return Response(status_code=400)
        except Exception as error:  # its words might hold what was sent: only its name is told
            self._told(f"a request failed by a fault of the collector ({type(error).__name__})")
            metrics.refused["fault"] += 1
            words = "the collector failed: send it again later"
            return refusal_answer(Refusal(500, "fault", words))
        finally:
            metrics.answered(time.monotonic() - began)

    async def _take(self, desk: Desk, request: Request) -> Response:
        as_json = is_json(request)
        self._require_open()
        with _admitting():
            sender = self._admit(
                request.headers.get("authorization", ""), desk.campaign.fingerprint
            )
        most = desk.campaign.most_bytes(as_json)
        require_length(request, most)
        try:
            with self._room.claiming() as claim:
                body = await body_of(request, most, self._seconds, claim)
                arrivals = _read(desk.campaign, body, as_json, sender.until)
                if (found := len(arrivals.places) + len(arrivals.refused)) > self._each:
                    words = f"the batch has {found:,} reports: send at most {self._each:,} at once"
                    raise Refusal(413, "many", words)
                statuses = await self._store(desk, arrivals, sender)
                return _answer(desk.metrics, arrivals, statuses)
        except NoRoom as error:
            raise Refusal(429, "busy", str(error), close=True) from None
        except StoreFull as error:
            raise Refusal(507, "full", str(error)) from None
        except StoreStopped as error:
            raise Refusal(503, "stopped", str(error)) from None

    async def _store(self, desk: Desk, arrivals: Arrivals, sender: Admitted) -> list[int]:
        if not len(arrivals.records):
            return []
        content = arrivals.records.tobytes()
        desk.writer.require_open()
        with _admitting():
            sender.use(content)
        statuses = await desk.writer.append(arrivals.records, arrivals.entries)
        if np.isin(statuses, (NEW, DUPLICATE)).any():
            sender.acknowledge(content)
        return [int(status) for status in statuses]

    def _desk(self, request: Request) -> Desk:
        if desk := self.desks.get(request.path_params["fingerprint"]):
            return desk
        words = "no such campaign is collected here: check the fingerprint in the address"
        raise Refusal(404, "campaign", words, close=True)

    def _require_open(self) -> None:
        if self.stopping:
            words = "the collector is stopping: send it again later"
            raise Refusal(503, "stopping", words, close=True)

    async def _randomizer(self, request: Request) -> Response:
        desk = self._desk(request)
        return Response(desk.campaign.text, media_type="application/json")

    async def _signature(self, request: Request) -> Response:
        campaign = self._desk(request).campaign
        if campaign.signature is None:
            words = "the randomizer is not signed: pin its fingerprint instead"
            raise Refusal(404, "unsigned", words)
        return Response(campaign.signature, media_type="text/plain")

    async def _health(self, request: Request) -> Response:
        self._require_open()
        return JSONResponse({"status": "ok"})

    async def _metrics(self, request: Request) -> Response:
        lines = self.elsewhere.lines('campaign="none"')
        for fingerprint, desk in self.desks.items():
            labels, store = f'campaign="{fingerprint[:16]}"', desk.writer.store
            lines += desk.metrics.lines(labels)
            disk = await asyncio.to_thread(store.disk_bytes)
            lines.append(("privot_stored_reports", labels, str(store.count)))
            lines.append(("privot_disk_bytes", labels, str(disk)))
            lines.append(("privot_waiting_reports", labels, str(desk.writer.waiting)))
        lines.append(("privot_held_bytes", "", str(self._room.held)))
        return PlainTextResponse(exposition(lines), media_type="text/plain; version=0.0.4")

    async def _elsewhere(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        reason, words = _KNOWN.get(
            status, ("request", "the request cannot be used: see the manual")
        )
        self.elsewhere.refused[reason] += 1
        return refusal_answer(Refusal(status, reason, words, close=True))

    async def _refuse(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        self.elsewhere.refused[error.reason] += 1
        return refusal_answer(error)


@contextmanager
def _admitting() -> Iterator[None]:
    try:
        yield
    except NotAdmitted as error:
        raise Refusal(401, "admission", str(error), close=True) from None


def _read(campaign: Campaign, body: bytes, as_json: bool, until: int | None) -> Arrivals:
    try:
        return campaign.read(body, as_json, until)
    except WireError as error:
        raise Refusal(413 if error.reason == "many" else 400, error.reason, str(error)) from None


def _answer(metrics: Metrics, arrivals: Arrivals, statuses: list[int]) -> Response:
    failed = [*arrivals.refused]
    for place, status in zip(arrivals.places, statuses, strict=True):
        if status == DELETED:
            failed.append(Refused(place, "deleted", _DELETED))
    accepted, duplicates = statuses.count(NEW), statuses.count(DUPLICATE)
    metrics.received += len(statuses) + len(arrivals.refused)
    metrics.accepted += accepted
    metrics.duplicates += duplicates
    metrics.refused.update(each.reason for each in failed)
    told = {
        "accepted": accepted,
        "duplicates": duplicates,
        "failed": [each.to_dict() for each in sorted(failed)],
    }
    return JSONResponse(told, status_code=200 if accepted or duplicates else 422)

"""The process: one server on one port, sealing now and then, and an end that loses nothing.

Uvicorn speaks HTTP; what it does not bound is bounded here: how long and how large a request's head
may be, and how many connections there are. At a signal no new reports are taken (503), those that
were are stored and answered, then what is stored is sealed.

**Privacy review.** Uvicorn logs no requests, and of its other lines only faults, without addresses or
times. It is told to believe no header about whom it speaks with, for nobody asks.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from privot.collector.app import Collector, Desk
from privot.collector.sealing import seal
from privot.collector.shelves import Shelf
from privot.errors import PrivotError

_HEAD_SECONDS, _HEAD_BYTES = 10.0, 2**15
_CONNECTIONS, _BACKLOG = 4096, 2048
_STOP_SECONDS = 30


class BoundedProtocol(HttpToolsProtocol):
    """HTTP whose heads come soon and are short."""

    _timer: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: Any) -> None:
        """Expect a head."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing."""
        self._expect_nothing()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Another request on the same connection."""
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._expect_nothing()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Refuse a head that does not end."""
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
    """Tells the application of a signal as soon as it comes."""

    def __init__(self, config: uvicorn.Config, collector: Collector) -> None:
        super().__init__(config)
        self._collector = collector

    def handle_exit(self, sig: int, frame: Any) -> None:
        """From now on 503. The signal is not raised again at the end, which is an orderly one."""
        self._collector.stopping = self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A socket that nobody else listens on."""
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
    """Seals one campaign, a sealing at a time.

    Arguments:
        desk: The campaign, and its store.
        shelf: Where its shards go.
        told: Takes lines for people.
    """

    desk: Desk
    shelf: Shelf
    told: Callable[[str], None]
    _alone: threading.Lock = field(default_factory=threading.Lock)

    def seal(self) -> None:
        """Seal what is stored; a failure is told, and what was to be sealed stays stored."""
        campaign = self.desk.campaign
        with self._alone:
            try:
                done = seal(self.desk.writer.store, campaign, self.shelf)
            except (PrivotError, OSError) as error:
                self.told(f"not sealed, and nothing is lost: {error}")
                return
        if done is not None:
            aside = f", {done.quarantined:,} in quarantine" if done.quarantined else ""
            self.told(
                f"{campaign.fingerprint[:16]}: sealed {done.rows:,} reports{aside}; "
                f"{done.total:,} in the release"
            )


def serve(
    collector: Collector, listener: socket.socket, sealers: Sequence[Sealer], seal_seconds: float
) -> None:
    """Serve until a signal comes; then seal what is stored.

    Arguments:
        collector: What to serve.
        listener: On which socket.
        sealers: Of its campaigns.
        seal_seconds: How often to seal meanwhile; never for 0.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
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
    server = Server(config, collector)

    async def run() -> None:
        often = asyncio.create_task(_seal_often(sealers, seal_seconds))
        try:
            await server.serve([listener])
        finally:
            often.cancel()

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(run())
    for sealer in sealers:
        sealer.seal()
        sealer.desk.writer.store.close()


async def _seal_often(sealers: Sequence[Sealer], seconds: float) -> None:
    while seconds:
        await asyncio.sleep(seconds)  # by a clock that never goes back
        for sealer in sealers:
            await asyncio.to_thread(sealer.seal)

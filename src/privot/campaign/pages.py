"""Serves the pages of a campaign on this machine, for `privot campaign up`.

Any web server can serve the folder instead. The page pins the address of its collector; where the
collector listens on another one, the page is sent with that address, and the file is left as it is.

**Privacy review.** Nothing of a request is logged. The address replaced is the collector's alone: the
fingerprint and the key that the page pins stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from privot.campaign.campaign import CampaignFolder
from privot.errors import PrivotError


class _Pages(SimpleHTTPRequestHandler):
    """Files of a folder, and the page with the collector's address."""

    def __init__(self, *given: Any, index: bytes, **more: Any) -> None:
        self._index = index
        super().__init__(*given, **more)

    def do_GET(self) -> None:
        """The page; any other file as it is."""
        if self.path.partition("?")[0] not in ("/", "/index.html"):
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(self._index)))
        self.end_headers()
        self.wfile.write(self._index)

    def end_headers(self) -> None:
        """The page of another campaign may have been here before."""
        self.send_header("cache-control", "no-store")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing of anybody."""


@contextmanager
def page_server(campaign: CampaignFolder, collector: str, host: str, port: int) -> Iterator[str]:
    """Serve a campaign's pages during a block; the origin where they are.

    Arguments:
        campaign: Whose.
        collector: Address that the page sends to.
        host: To listen on.
        port: To listen on; 0 for any that is free.

    Raises:
        PrivotError: if the port cannot be listened on.
    """
    text = (campaign.web / "index.html").read_text(encoding="utf-8")
    index = text.replace(campaign.collector.rstrip("/"), collector).encode()
    try:
        server = ThreadingHTTPServer(
            (host, port), partial(_Pages, index=index, directory=str(campaign.web))
        )
    except OSError as error:
        raise PrivotError(
            f"--page-port {port} of {host} cannot be listened on ({error.strerror}): give another"
        ) from None
    thread = Thread(target=server.serve_forever, daemon=True)
    with server:
        thread.start()
        try:
            yield f"http://{host}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()

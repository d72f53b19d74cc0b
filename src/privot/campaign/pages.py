"""The pages of a campaign: their files, what a page states about itself, and a server for one machine.

A page states its facts (what it pins, shows, and sends to) in a JSON element, and its policy names the
origins that it may send to. Both are inserted when the folder is made; the other files are copies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import Any

from privot.core.errors import PrivotError

# Files of a campaign's page by their names there, and the files of this package that they are made of.
_OF_ALL = ("questions.js", "dashboard.html", "dashboard.js", "campaign.css")
OF_REPORTS = {"index.html": "index.html", "index.js": "index.js", "reported.js": "reported.js"}
OF_SHARES = {"index.html": "shares.html", "shares.js": "shares.js"}
CLIENT = "privot.js"
# Addresses whose hosts a Content-Security-Policy can name.
_ADDRESS = re.compile(r"(https?://[a-z0-9.-]+(?::([0-9]{1,5}))?)(?:/[^\s?#]*)?", re.ASCII | re.I)
_FACTS = re.compile(r'<script[^>]*id="campaign"[^>]*>(.*?)</script>', re.DOTALL)


def origin_of(name: str, address: str) -> str:
    """Return scheme, host and port of an address in lower case, for the page's policy."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None or int(parts[2] or 0) >= 2**16:
        raise PrivotError(
            f"{name} is {address!r}: give its address, such as https://reports.example.org"
        )
    return parts[1].lower()


def write_pages(
    web: Path, names: Mapping[str, str], facts: Mapping[str, Any], origins: Iterable[str]
) -> None:
    """Write the pages into a folder: one kind of page, its facts, and the origins it may send to."""
    pages = files("privot.campaign") / "web"
    client = pages / CLIENT
    if not client.is_file():
        raise PrivotError("the browser's client was not built: run `make client` in the checkout")
    for name, source in ({name: name for name in (*_OF_ALL, CLIENT)} | {**names}).items():
        text = (pages / source).read_text(encoding="utf-8")
        if name == "index.html":  # escaped, for no text of a schema may close the script element
            text = text.replace("ORIGINS", " ".join(origins), 1)
            text = text.replace("CAMPAIGN", json.dumps(facts).replace("<", "\\u003c"), 1)
        (web / name).write_text(text, encoding="utf-8")


def read_facts(web: Path) -> dict[str, Any]:
    """Return the facts that a folder's page states."""
    path = web / "index.html"
    try:
        found = _FACTS.search(path.read_text(encoding="utf-8"))
        return dict(json.loads(found[1])) if found else {}
    except (OSError, ValueError, TypeError):
        raise PrivotError(f"{path} is damaged: restore it, or make the campaign again") from None


class _Pages(SimpleHTTPRequestHandler):
    """Request handler for a folder's files, and for a page with other addresses."""

    def __init__(self, *given: Any, index: bytes, **more: Any) -> None:
        self._index = index
        super().__init__(*given, **more)

    def do_GET(self) -> None:
        """Send the adapted page, or any other file unchanged."""
        if self.path.partition("?")[0] not in ("/", "/index.html"):
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(self._index)))
        self.end_headers()
        self.wfile.write(self._index)

    def end_headers(self) -> None:
        """Forbid caching: the address may have served another campaign before."""
        self.send_header("cache-control", "no-store")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Do not log requests."""


@contextmanager
def page_server(web: Path, moved: Mapping[str, str], host: str, port: int) -> Iterator[str]:
    """Serve a campaign's pages on this machine during a `with` block, which gets their origin.

    Any web server can serve the folder instead. The page pins the addresses that it sends to; if a
    collector or server listens on another one, the page is sent with that one, and the file is left
    unchanged.

    **Privacy review.** Requests are not logged. Addresses alone are replaced; the pinned fingerprint and
    key stay.

    Arguments:
        web: Folder of the pages.
        moved: By each address that the page pins, the address that is listened on.
        host: Host to listen on.
        port: Port to listen on; 0 for any free one.

    Raises:
        PrivotError: if the port cannot be listened on.
    """
    text = (web / "index.html").read_text(encoding="utf-8")
    pinned = {origin_of("address", old): new for old, new in moved.items()}  # in the policy
    pinned |= {old.rstrip("/"): new for old, new in moved.items()}
    either = "|".join(re.escape(old) for old in sorted(pinned, key=len, reverse=True))
    index = re.sub(either, lambda found: pinned[found[0]], text).encode()
    try:
        server = ThreadingHTTPServer((host, port), partial(_Pages, index=index, directory=str(web)))
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

"""The pages of a campaign: their files, their facts, and a web server for this machine.

The facts of a page are the values that it pins and shows, and the addresses to which it sends, in a JSON
element. Its `Content-Security-Policy` names the origins of these addresses. Both are inserted when the
folder is created; the other files are copies.
"""

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

CLIENT = "privot.js"
_COMMON_FILES = ("questions.js", "dashboard.html", "dashboard.js", "campaign.css", CLIENT)
# Further files of a page for reports, or for shares: names in the folder, and in this package.
REPORT_FILES = {"index.html": "index.html", "index.js": "index.js", "reported.js": "reported.js"}
SHARE_FILES = {"index.html": "shares.html", "shares.js": "shares.js"}
# Addresses whose hosts a Content-Security-Policy can name.
_ADDRESS = re.compile(r"(https?://[a-z0-9.-]+(?::([0-9]{1,5}))?)(?:/[^\s?#]*)?", re.ASCII | re.I)
_FACTS = re.compile(r'<script[^>]*id="campaign"[^>]*>(.*?)</script>', re.DOTALL)


def origin_of(name: str, address: str) -> str:
    """Return scheme, host and port of the address of `name`; raise PrivotError if it is not HTTP."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None or int(parts[2] or 0) >= 2**16:
        raise PrivotError(
            f"{name} is {address!r}: give its address, such as https://reports.example.org"
        )
    return parts[1].lower()


def write_pages(
    web: Path, further: Mapping[str, str], facts: Mapping[str, Any], origins: Iterable[str]
) -> None:
    """Write the pages into a folder: REPORT_FILES or SHARE_FILES, facts, and allowed origins."""
    pages = files("privot.campaign") / "web"
    if not (pages / CLIENT).is_file():
        raise PrivotError("the browser's client was not built: run `make client` in the checkout")
    for name, source in [*zip(_COMMON_FILES, _COMMON_FILES, strict=True), *further.items()]:
        text = (pages / source).read_text(encoding="utf-8")
        if name == "index.html":  # escaped, so that no text of a schema closes the script element
            text = text.replace("ORIGINS", " ".join(origins), 1)
            text = text.replace("CAMPAIGN", json.dumps(facts).replace("<", "\\u003c"), 1)
        (web / name).write_text(text, encoding="utf-8")


def read_facts(web: Path) -> dict[str, Any]:
    """Return the facts of a folder's page; empty if it states none."""
    path = web / "index.html"
    try:
        found = _FACTS.search(path.read_text(encoding="utf-8"))
        return dict(json.loads(found[1])) if found else {}
    except (OSError, ValueError, TypeError):
        raise PrivotError(f"{path} is damaged: restore it, or make the campaign again") from None


class _Pages(SimpleHTTPRequestHandler):
    """Request handler for a folder's files, with `index` in place of its `index.html`."""

    def __init__(self, *arguments: Any, index: bytes, **options: Any) -> None:
        self._index = index
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        """Send the index, or any other file of the folder."""
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
def page_server(web: Path, replaced: Mapping[str, str], host: str, port: int) -> Iterator[str]:
    """Serve a campaign's pages on this machine during a `with` block, which gets their origin.

    Any web server can serve the folder as well. This one can replace the addresses to which the page
    sends, if the servers listen on others; the file is unchanged.

    **Privacy review.** Requests are not logged. Only addresses are replaced, not the pinned fingerprint
    and key.

    Arguments:
        web: Folder of the pages.
        replaced: The address to send to, by the address in the page.
        host: Host to listen on.
        port: Port to listen on; 0 for any free one.

    Raises:
        PrivotError: if the port cannot be listened on.
    """
    text = (web / "index.html").read_text(encoding="utf-8")
    new_texts = {origin_of("address", old): new for old, new in replaced.items()}  # in the policy
    new_texts |= {old.rstrip("/"): new for old, new in replaced.items()}  # in the facts
    pattern = "|".join(re.escape(old) for old in sorted(new_texts, key=len, reverse=True))
    index = re.sub(pattern, lambda match: new_texts[match[0]], text).encode()
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

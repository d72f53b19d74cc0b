"""Folder of a campaign, the server of its pages, and its status.

| file | access |
|---|---|
| `randomizer.json`, `randomizer.json.sig` | public: the randomizer of each record, and its signature |
| `signing.pem` | the holder's alone: with it the noise can be changed |
| `analyst.key` | the analyst's alone, of a shuffled campaign: it opens batches of sealed reports |
| `web/` | public, on any web server: the page, the client, the same randomizer, and `status.json` |

**Privacy review.** The page draws the report in the browser, shows it, and sends what it showed. It
pins the fingerprint and the key, so that nobody between it and the holder changes the noise. The
server of the page serves the code that draws: respondents trust it, or somebody who reads the code.
Its policy (`Content-Security-Policy`) has the browser refuse requests to any host but the page's own
server and the collector, and every form that would be sent as it was filled in, so that no column name
and no script that failed to load makes answers part of an address.

Of a shuffled campaign (`privot.collector.analyst`) the page pins the analyst's public key too, and seals
what it showed. The server of the page could pin another key: the shuffler should not run it.

The status is a function of the reports: post-processing, which the campaign may publish.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import Any, Self

import numpy as np
import pyarrow as pa

from privot.collector.analyst import new_analyst_key
from privot.core.errors import PrivotError
from privot.core.files import replacing_file, replacing_folder
from privot.local import fit
from privot.privacy.rounding import at_most
from privot.randomizer import Randomizer, Release, plan_reports
from privot.randomizer.information import joint_errors
from privot.randomizer.reports.shuffled import shuffled_promise
from privot.randomizer.signing import new_key, public_key, read_key, sign, signature_path

_PAGES = ("index.html", "index.js", "reported.js", "dashboard.html", "dashboard.js", "campaign.css")
CLIENT = "privot.js"
# Addresses whose hosts a Content-Security-Policy can name.
_ADDRESS = re.compile(r"(https?://[a-z0-9.-]+(?::[0-9]+)?)(?:/[^\s?#]*)?", re.ASCII | re.IGNORECASE)
_PINNED = re.compile(r'<script[^>]*id="campaign"[^>]*>(.*?)</script>', re.DOTALL)
_RANDOMIZER, _KEY, _WEB, _ABOUT = "randomizer.json", "signing.pem", "web", "campaign.json"
_ANALYST = "analyst.key"


@dataclass(frozen=True)
class CampaignFolder:
    """Campaign in a folder.

    Arguments:
        folder: Its folder.
        randomizer: Randomizer of each record.
        title: Title of its pages.
        questions: Survey question of each column; the column's name by default.

    Examples:
        >>> from privot import Schema
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=1.0)
        >>> CampaignFolder(Path("ask"), randomizer, "A bit", questions={}).web.name
        'web'
    """

    folder: Path
    randomizer: Randomizer
    title: str
    questions: Mapping[str, str]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a campaign's folder."""
        try:
            about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
            return cls(
                folder, Randomizer.load(folder / _RANDOMIZER), about["title"], about["questions"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            raise PrivotError(
                f"{folder} is no campaign: make one by `privot campaign new`"
            ) from None

    @property
    def web(self) -> Path:
        """Folder of its pages."""
        return self.folder / _WEB

    @property
    def collector(self) -> str:
        """Address of the page's collector."""
        return self._pinned("collector")

    @property
    def public_key(self) -> str:
        """Public key of the randomizer's signature in base64, for devices to pin."""
        return self._pinned("publicKey")

    @property
    def analyst_key(self) -> str:
        """Public key to which the page seals reports, in base64; empty if they are not shuffled."""
        return self._pinned("analystKey")

    def _pinned(self, name: str) -> str:
        """Return a fact that the page pins; empty if it pins none."""
        try:
            found = _PINNED.search((self.web / "index.html").read_text(encoding="utf-8"))
            return str(json.loads(found[1]).get(name, "")) if found else ""
        except (OSError, ValueError, AttributeError):
            raise PrivotError(
                f"{self.web / 'index.html'} is damaged: restore it, or make the campaign again"
            ) from None


def create(
    randomizer: Randomizer,
    folder: Path,
    *,
    title: str,
    collector: str,
    questions: Mapping[str, str] | None = None,
) -> CampaignFolder:
    """Create a campaign's folder: a signed randomizer, keys, also an analyst's if shuffled, and pages.

    Arguments:
        randomizer: A randomizer that browsers can draw.
        folder: Its folder, which must not exist.
        title: Title of its pages.
        collector: Address of the page's collector.
        questions: Survey questions, by column of the schema.

    Raises:
        PrivotError: if browsers cannot draw it, a question is of no column, or the folder exists.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from privot import Schema
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> randomizer = Randomizer.calibrate(schema, epsilon=1.0)
        >>> with TemporaryDirectory() as home:
        ...     made = create(randomizer, Path(home) / "ask", title="A bit", collector="https://example.org")
        ...     made.web.name
        'web'
    """
    questions = dict(questions or {})
    if randomizer.program is None:
        raise PrivotError(
            "the randomizer cannot be drawn by browsers (images, long vectors, curves, Gaussian noise): "
            "leave those columns out, or use windows"
        )
    if unknown := [name for name in questions if name not in randomizer.schema.columns]:
        raise PrivotError(f"question {unknown[0]!r} is of no column of the schema")
    if folder.exists():
        raise PrivotError(
            f"{folder} exists, and a campaign's key is never overwritten: name another"
        )
    origin = _origin(collector)
    with replacing_folder(folder) as draft:
        path = draft / _RANDOMIZER
        randomizer.save(path)
        new_key(draft / _KEY)
        key = read_key(draft / _KEY)
        sign(path, key)
        about = {"title": title, "questions": questions}
        (draft / _ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")
        web = draft / _WEB
        web.mkdir()
        for public in (path, signature_path(path)):
            shutil.copyfile(public, web / public.name)
        facts = _page_facts(randomizer, public_key(key), collector) | about
        _write_pages(web, facts | _analyst_fact(randomizer, draft / _ANALYST), origin)
    return CampaignFolder(folder, randomizer, title, questions)


def _analyst_fact(randomizer: Randomizer, path: Path) -> dict[str, str]:
    """Write the analyst's key of shuffled reports, and return the fact that the page pins."""
    return (
        {} if shuffled_promise(randomizer.schema) is None else {"analystKey": new_analyst_key(path)}
    )


def _origin(address: str) -> str:
    """Return scheme, host and port of an address, which the page may send to."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise PrivotError(
            f"collector is {address!r}: give its address, such as https://reports.example.org"
        )
    return found[1]


def _write_pages(web: Path, facts: Mapping[str, Any], origin: str) -> None:
    """Copy the pages; the first has the facts that it pins and shows."""
    pages = files("privot.campaign") / "web"
    client = pages / CLIENT
    if not client.is_file():
        raise PrivotError("the browser's client was not built: run `make client` in the checkout")
    for name in (*_PAGES, CLIENT):
        text = (pages / name).read_text(encoding="utf-8")
        if name == "index.html":  # no text of a schema may close the script element
            text = text.replace("COLLECTOR", origin, 1)
            text = text.replace("CAMPAIGN", json.dumps(facts).replace("<", "\\u003c"), 1)
        (web / name).write_text(text, encoding="utf-8")


def _page_facts(randomizer: Randomizer, key: str, collector: str) -> dict[str, Any]:
    """Return the facts that the page pins and shows; labels are of each coding that is reported."""
    joint = randomizer.joint.design.columns if randomizer.joint else []
    columns = randomizer.schema.coded
    promise = shuffled_promise(randomizer.schema)
    guarantee = randomizer.batch_guarantee(promise.people or 1 if promise else 1)
    codings = {n: c.codings if n in joint else (c.alphabet,) for n, c in columns.items()}
    return {
        "fingerprint": randomizer.fingerprint,
        "publicKey": key,
        "collector": collector,
        "promise": guarantee.describe(),
        "noise": {row["column"]: row["in_words"] for row in randomizer.expected_noise()},
        "labels": {n: [[*columns[n].labels_in(c)] for c in own] for n, own in codings.items()},
    }


class _Pages(SimpleHTTPRequestHandler):
    """Handler of a folder's files, and of the page with the collector's address."""

    def __init__(self, *given: Any, index: bytes, **more: Any) -> None:
        self._index = index
        super().__init__(*given, **more)

    def do_GET(self) -> None:
        """Send the page; any other file as it is."""
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
        """Log nothing of a request."""


@contextmanager
def page_server(campaign: CampaignFolder, collector: str, host: str, port: int) -> Iterator[str]:
    """Serve a campaign's pages on this machine during a block, and provide their origin.

    Any web server can serve the folder instead. The page pins the address of its collector; where the
    collector listens on another one, the page is sent with that address, and the file is left as it is.

    **Privacy review.** Nothing of a request is logged. Only the collector's address is replaced: the
    fingerprint and the key that the page pins stay.

    Arguments:
        campaign: The campaign.
        collector: Address of the collector.
        host: Host to listen on.
        port: Port to listen on; 0 for any free one.

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


_ROWS, _BINS, _CELLS = 40_000, 30, 24


def write_status(campaign: CampaignFolder, release: Release, *, seed: int = 0) -> dict[str, Any]:
    """Write the dashboard's data to `web/status.json`, and return it.

    They are the number of reports, the expected error, and shares of each column by a fit.

    Arguments:
        campaign: The campaign.
        release: Its reports so far.
        seed: Seed of the fit and the sample.

    Raises:
        PrivotError: if the release is of another randomizer.
    """
    if release.randomizer.fingerprint != campaign.randomizer.fingerprint:
        raise PrivotError("the release is of another campaign: give the store of this one")
    sample = fit(release, seed=seed).sample(_ROWS, seed=seed)
    status = {
        "title": campaign.title,
        "reports": len(release),
        "guarantee": f"ε = {at_most(release.guarantee.epsilon)}",
        "promise": release.guarantee.describe(),
        "expected_error": expected_error(campaign, len(release)),
        "columns": [
            {"question": campaign.questions.get(name, name)}
            | _drawn(release.randomizer, name, sample)
            for name in release.schema.columns
        ],
    }
    with replacing_file(campaign.web / "status.json") as draft:
        draft.write_text(json.dumps(status), encoding="utf-8")
    return status


def expected_error(campaign: CampaignFolder, people: int) -> str | None:
    """Return the expected error of a number of reports, as text; None where none is planned."""
    randomizer = campaign.randomizer
    if (joint := randomizer.joint) is not None:
        one_way, _ = joint_errors(joint.design, joint.epsilon, people)
        return f"{min(1.0, one_way.mean()):.1%}"
    made = plan_reports(randomizer.schema, randomizer.guarantee.epsilon, people)
    if made.table is not None:
        own = ("split", randomizer.num_reported)
        options = {(each.report, each.report_columns): each for each in made.table.options}
        return f"{min(1.0, options[own].one_way):.1%}" if own in options else None
    if made.columns:
        first = made.columns[0]
        return f"{min(1.0, first.options[0].error / 2):.1%} of the range"
    return None


def _drawn(randomizer: Randomizer, name: str, sample: pa.Table) -> dict[str, Any]:
    """Return a column's shares: of codes, of equal bins of a number, or of the cells of a map."""
    schema, column = randomizer.schema, randomizer.schema.columns[name]
    table = sample.select(list(column.table_columns(name)))
    # A number in a joint report has bins only.
    if column.domain is None or (column.is_number and randomizer.joint is not None):
        coded = schema.coded[name]
        codes = coded.encode_codes(name, table)
        shares = np.bincount(codes, minlength=coded.alphabet.size) / len(codes)
        return {"labels": list(coded.labels), "shares": shares.round(4).tolist()}
    units = schema.points[name].encode_units(name, table)
    units = units[~np.isnan(units).any(axis=1)]
    if units.shape[1] == 2:
        edges = np.linspace(-1, 1, _CELLS + 1)
        cells = np.histogram2d(units[:, 1], units[:, 0], [edges, edges])[0] / max(1, len(units))
        return {"cells": cells.round(5).tolist()}
    edges = np.linspace(-1, 1, _BINS + 1)
    shares = np.histogram(units[:, 0], edges)[0] / max(1, len(units))
    ends = [str(bound) for bound in getattr(column, "bounds", ("-1", "1"))]
    return {"shares": shares.round(4).tolist(), "ends": ends}

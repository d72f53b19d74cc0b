"""A campaign's folder: what devices need, what its holder keeps, and the page that asks.

| file | whose |
|---|---|
| `randomizer.json`, `randomizer.json.sig` | public: what is done to each record, and who says so |
| `signing.pem` | the holder's alone: whoever has it can change the noise |
| `web/` | public, any web server's: the page, the client, the same randomizer, and `status.json` |

**Privacy review.** The page draws the report in the browser, shows it, and sends what it showed. It pins
the fingerprint and the key, so that nobody between it and the holder changes the noise. Whoever serves
the page itself serves the code that draws: people trust them, or somebody who reads it. Its policy
(`Content-Security-Policy`) has the browser refuse whatever goes elsewhere than to the page's own server
and the collector, and every form that would be sent as it was filled in, so that no name of a column and
no script that failed to load makes answers part of an address.
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

from privot.core.errors import PrivotError
from privot.core.files import replacing_file, replacing_folder
from privot.local import fit
from privot.privacy.rounding import at_most
from privot.randomizer import Randomizer, Release, plan_reports
from privot.randomizer.information import joint_errors
from privot.randomizer.signing import new_key, public_key, read_key, sign, signature_path

_PAGES = ("index.html", "index.js", "reported.js", "dashboard.html", "dashboard.js", "campaign.css")
CLIENT = "privot.js"
# Hosts as a page's policy can name them.
_ADDRESS = re.compile(r"(https?://[a-z0-9.-]+(?::[0-9]+)?)(?:/[^\s?#]*)?", re.ASCII | re.IGNORECASE)
_PINNED = re.compile(r'<script[^>]*id="campaign"[^>]*>(.*?)</script>', re.DOTALL)
_RANDOMIZER, _KEY, _WEB, _ABOUT = "randomizer.json", "signing.pem", "web", "campaign.json"


@dataclass(frozen=True)
class CampaignFolder:
    """A campaign that was created.

    Arguments:
        folder: Where.
        randomizer: What is done to each record.
        title: Of its pages.
        questions: What people are asked, by column; a column's name where there is none.

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
        """The folder of its pages."""
        return self.folder / _WEB

    @property
    def collector(self) -> str:
        """Address of the collector that its page sends to."""
        try:
            text = (self.web / "index.html").read_text(encoding="utf-8")
            found = _PINNED.search(text)
            return str(json.loads(found[1])["collector"]) if found else ""
        except (OSError, ValueError, KeyError):
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
    """Make a campaign's folder: a signed randomizer with a fresh key, and its pages.

    Arguments:
        randomizer: One that browsers can draw.
        folder: Where; it must not exist.
        title: Of its pages.
        collector: Address of the collector that the page sends to.
        questions: What people are asked, by column of the schema.

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
        _write_pages(web, _told(randomizer, public_key(key), collector) | about, origin)
    return CampaignFolder(folder, randomizer, title, questions)


def _origin(address: str) -> str:
    """Whom the page may send to: scheme, host and port of an address."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise PrivotError(
            f"collector is {address!r}: give its address, such as https://reports.example.org"
        )
    return found[1]


def _write_pages(web: Path, told: Mapping[str, Any], origin: str) -> None:
    pages = files("privot.campaign") / "web"
    client = pages / CLIENT
    if not client.is_file():
        raise PrivotError("the browser's client was not built: run `make client` in the checkout")
    for name in (*_PAGES, CLIENT):
        text = (pages / name).read_text(encoding="utf-8")
        if name == "index.html":  # no text of a schema may end the script that it stands in
            text = text.replace("COLLECTOR", origin, 1)
            text = text.replace("CAMPAIGN", json.dumps(told).replace("<", "\\u003c"), 1)
        (web / name).write_text(text, encoding="utf-8")


def _labels(randomizer: Randomizer) -> dict[str, list[list[str]]]:
    """A name for every code of each coding that a column is reported in."""
    joint = randomizer.joint.design.columns if randomizer.joint else []
    columns = randomizer.schema.coded
    codings = {n: c.codings if n in joint else (c.alphabet,) for n, c in columns.items()}
    return {n: [list(columns[n].labels_in(each)) for each in own] for n, own in codings.items()}


def _told(randomizer: Randomizer, key: str, collector: str) -> dict[str, Any]:
    """What the page pins and says."""
    noise = {row["column"]: row["in_words"] for row in randomizer.expected_noise()}
    return {
        "fingerprint": randomizer.fingerprint,
        "publicKey": key,
        "collector": collector,
        "promise": randomizer.guarantee.describe(),
        "noise": noise,
        "labels": _labels(randomizer),
    }


# Serves the pages of a campaign on this machine, for `privot campaign up`.
#
# Any web server can serve the folder instead. The page pins the address of its collector; where the
# collector listens on another one, the page is sent with that address, and the file is left as it is.
#
# **Privacy review.** Nothing of a request is logged. The address replaced is the collector's alone:
# the fingerprint and the key that the page pins stay.


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


# How far a campaign is: how many reports there are, what they tell, and what error to expect by now.
#
# **Privacy review.** A function of the reports: post-processing, which the campaign may publish.


_ROWS, _BINS, _CELLS = 40_000, 30, 24


def write_status(campaign: CampaignFolder, release: Release, *, seed: int = 0) -> dict[str, Any]:
    """Fit a release, and write what the dashboard shows to `web/status.json`; returns it.

    Arguments:
        campaign: Whose.
        release: What has come in.
        seed: Of the fit and the sample.

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
    """The error to expect of so many people's reports, in words; None where none is planned."""
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
    """A column's shares: of its codes, of equal bins of a number, or of the squares of a map."""
    schema, column = randomizer.schema, randomizer.schema.columns[name]
    table = sample.select(list(column.table_columns(name)))
    # Of a number that is reported with others no more is known than its bins.
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

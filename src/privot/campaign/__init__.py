"""Campaigns: a signed randomizer, a survey page for browsers, and a page of results so far.

| file | access |
|---|---|
| `randomizer.json`, `randomizer.json.sig` | public: the randomizer of each record, and its signature |
| `signing.pem` | private to the campaign's owner: whoever has it can change the noise |
| `analyst.key` | private to the analyst of a shuffled campaign: it opens batches of sealed reports |
| `web/` | public, on any web server: the page, the client, the same randomizer, and `status.json` |

**Privacy review.** The page draws the report in the browser, shows it, and sends exactly that. It
pins the fingerprint and the key, so that nobody between browser and owner can change the noise. The
page's server also serves the code that draws: respondents have to trust the server, or somebody who
reads the code. The page's `Content-Security-Policy` makes the browser refuse requests to other hosts
than the page's server and the collector, and all ordinary form submissions, so that raw answers never
become part of an address, not even where a script fails to load.

For a shuffled campaign (`privot.collector.analyst`) the page also pins the analyst's public key, and
seals exactly what it showed. The page's server could pin another key, so the shuffler should not run it.

The status is computed from reports alone (post-processing), so the campaign may publish it.
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
from privot.privacy import ApproximateDP, DistributedDP, PureDP
from privot.privacy.rounding import at_most
from privot.randomizer import Randomizer, Release, plan_reports
from privot.randomizer.information import joint_errors
from privot.randomizer.reports.shuffled import shuffled_promise
from privot.randomizer.signing import new_key, public_key, read_key, sign, signature_path

__all__ = ["CampaignFolder", "create"]

_PAGES = ("index.html", "index.js", "reported.js", "dashboard.html", "dashboard.js", "campaign.css")
CLIENT = "privot.js"
# Addresses whose hosts a Content-Security-Policy can name.
_ADDRESS = re.compile(r"(https?://[a-z0-9.-]+(?::[0-9]+)?)(?:/[^\s?#]*)?", re.ASCII | re.IGNORECASE)
_PINNED = re.compile(r'<script[^>]*id="campaign"[^>]*>(.*?)</script>', re.DOTALL)
_RANDOMIZER, _KEY, _WEB, _ABOUT = "randomizer.json", "signing.pem", "web", "campaign.json"
_ANALYST = "analyst.key"


@dataclass(frozen=True)
class CampaignFolder:
    """Campaign whose files are in a folder.

    Arguments:
        folder: The folder.
        randomizer: Randomizer of each record.
        title: Title of the pages.
        questions: Survey question of each column; a column without one shows its name.

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
            raise PrivotError(f"{folder} is no campaign: make one: `privot campaign new`") from None

    @property
    def web(self) -> Path:
        """Folder of the pages."""
        return self.folder / _WEB

    @property
    def collector(self) -> str:
        """Address of the collector to which the page sends."""
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
        """Return a value that the page pins; empty if it pins none."""
        try:
            script = _PINNED.search((self.web / "index.html").read_text(encoding="utf-8"))
            return str(json.loads(script[1]).get(name, "")) if script else ""
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
        folder: Folder to create; it must not exist.
        title: Title of the pages.
        collector: Address of the collector to which the page sends.
        questions: Survey questions, by column of the schema.

    Raises:
        PrivotError: if browsers cannot draw from the randomizer, a question names no column of the
            schema, or the folder exists.

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
        raise PrivotError(f"{folder} exists, and no campaign's key is overwritten: name another")
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
        if shuffled_promise(randomizer.schema) is not None:
            facts["analystKey"] = new_analyst_key(draft / _ANALYST)
        _write_pages(web, facts, origin)
    return CampaignFolder(folder, randomizer, title, questions)


def _origin(address: str) -> str:
    """Return scheme, host and port of the collector's address, for the page's policy."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise PrivotError(
            f"collector is {address!r}: give its address, such as https://reports.example.org"
        )
    return parts[1]


def _write_pages(web: Path, facts: Mapping[str, Any], origin: str) -> None:
    """Copy the pages, and insert the facts and the collector's origin into the first."""
    pages = files("privot.campaign") / "web"
    client = pages / CLIENT
    if not client.is_file():
        raise PrivotError("the browser's client was not built: run `make client` in the checkout")
    for name in (*_PAGES, CLIENT):
        text = (pages / name).read_text(encoding="utf-8")
        if name == "index.html":  # escaped, for no text of a schema may close the script element
            text = text.replace("COLLECTOR", origin, 1)
            text = text.replace("CAMPAIGN", json.dumps(facts).replace("<", "\\u003c"), 1)
        (web / name).write_text(text, encoding="utf-8")


def _page_facts(randomizer: Randomizer, key: str, collector: str) -> dict[str, Any]:
    """Return the facts that the page pins and shows, among them the labels of each reported coding."""
    joint = randomizer.joint.design.columns if randomizer.joint else []
    promise = shuffled_promise(randomizer.schema)
    guarantee = randomizer.batch_guarantee(promise.people or 1 if promise else 1)
    labels = {}
    for name, column in randomizer.schema.coded.items():
        codings = column.codings if name in joint else (column.alphabet,)
        labels[name] = [[*column.labels_in(coding)] for coding in codings]
    return {
        "fingerprint": randomizer.fingerprint,
        "publicKey": key,
        "collector": collector,
        "promise": guarantee.describe(),
        "noise": {row["column"]: row["in_words"] for row in randomizer.expected_noise()},
        "labels": labels,
    }


class _Pages(SimpleHTTPRequestHandler):
    """Request handler for a folder's files, and for a page with another collector's address."""

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
def page_server(campaign: CampaignFolder, collector: str, host: str, port: int) -> Iterator[str]:
    """Serve a campaign's pages on this machine during a `with` block, which gets their origin.

    Any web server can serve the folder instead. The page pins its collector's address; if the collector
    listens on another one, the page is sent with that address, and the file is left unchanged.

    **Privacy review.** Requests are not logged. Only the collector's address is replaced; the pinned
    fingerprint and key stay.

    Arguments:
        campaign: The campaign.
        collector: Address on which the collector listens.
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
    """Write the dashboard's data to `web/status.json`, and return them.

    The data are the number of reports, the expected error, and each column's estimated distribution.

    Arguments:
        campaign: The campaign.
        release: The campaign's reports so far.
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
        "guarantee": _in_figures(release.guarantee),
        "promise": release.guarantee.describe(),
        "expected_error": expected_error(campaign, len(release)),
        "columns": [
            {"question": campaign.questions.get(name, name)}
            | _column_shares(release.randomizer, name, sample)
            for name in release.schema.columns
        ],
    }
    with replacing_file(campaign.web / "status.json") as draft:
        draft.write_text(json.dumps(status), encoding="utf-8")
    return status


def expected_error(campaign: CampaignFolder, people: int) -> str | None:
    """Return the expected error of estimates from `people` reports, as text; None if unknown."""
    randomizer = campaign.randomizer
    if (joint := randomizer.joint) is not None:
        one_way, _ = joint_errors(joint.design, joint.epsilon, people)
        return f"{min(1.0, one_way.mean()):.1%}"
    plan = plan_reports(randomizer.schema, randomizer.guarantee.epsilon, people)
    if plan.table is not None:
        for option in plan.table.options:
            if (option.report, option.report_columns) == ("split", randomizer.num_reported):
                return f"{min(1.0, option.one_way):.1%}"
        return None
    if plan.columns:
        first = plan.columns[0]
        return f"{min(1.0, first.options[0].error / 2):.1%} of the range"
    return None


def _column_shares(randomizer: Randomizer, name: str, sample: pa.Table) -> dict[str, Any]:
    """Return a column's shares by category, by equal bin of a number, or by cell of a map."""
    schema, column = randomizer.schema, randomizer.schema.columns[name]
    table = sample.select(list(column.table_columns(name)))
    # A joint report contains only the bins of a number.
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


def _in_figures(guarantee: PureDP | ApproximateDP | DistributedDP) -> str:
    """Return ε alone of a local guarantee, and all that a guarantee of trust states."""
    if isinstance(guarantee, DistributedDP):
        return str(guarantee)
    return f"ε = {at_most(guarantee.epsilon)}"

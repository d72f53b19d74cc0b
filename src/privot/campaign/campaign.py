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
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from privot.errors import PrivotError
from privot.files import replacing_folder
from privot.release import Randomizer
from privot.release.signing import new_key, public_key, read_key, sign, signature_path

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
    joint = randomizer.joint.asked.columns if randomizer.joint else []
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

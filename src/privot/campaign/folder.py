"""Folder of a campaign: its files, which `privot.campaign` lists, its pages, and a web server for them.

The facts of a page are the values that it pins and shows, and the addresses to which it sends, in a JSON
element. Its `Content-Security-Policy` names the origins of these addresses. Both are inserted when the
folder is created; the other files are copies.
"""

import json
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import Any, Self
from urllib.parse import urlsplit

from privot.aggregated import Encoder
from privot.collector.analyst import new_analyst_key
from privot.core.errors import PrivotError
from privot.core.files import replacing_folder
from privot.randomizer import Randomizer, integrity

_RANDOMIZER, _ENCODER = "randomizer.json", "encoder.json"
_THIS_MACHINE = re.compile(r"localhost|127(?:\.[0-9]+){3}")
_KEY, _WEB, _ABOUT, _ANALYST = "signing.pem", "web", "campaign.json", "analyst.key"
_CONTAINERS, _SECRETS, _VERIFY = "containers", "secrets", "verify.key"
_DATABASE = "postgresql://privot@database/privot"
# Further options of a server in a container.
_IN_CONTAINER = ["--host", "0.0.0.0", "--origin", "${PAGE:-http://127.0.0.1:8001}"]
_IN_CONTAINER += ["--seal-every", "1"]
_CLIENT = "privot.js"
_COMMON_FILES = ("questions.js", "dashboard.html", "dashboard.js", "campaign.css", _CLIENT)
# Further files of a page for reports, or for shares: names in the folder, and in this package.
_FOR_REPORTS = {"index.html": "index.html", "index.js": "index.js", "reported.js": "reported.js"}
_FOR_SHARES = {"index.html": "shares.html", "shares.js": "shares.js"}
# Addresses whose hosts a Content-Security-Policy can name.
_ADDRESS = re.compile(r"(https?://[a-z0-9.-]+(?::([0-9]{1,5}))?)(?:/[^\s?#]*)?", re.ASCII | re.I)
_FACTS = re.compile(r'<script[^>]*id="campaign"[^>]*>(.*?)</script>', re.DOTALL)


@dataclass(frozen=True)
class CampaignFolder:
    """Campaign whose files are in a folder.

    Arguments:
        folder: The folder.
        rule: Randomizer of each record, or encoder of its shares for two servers.
        title: Title of the pages.
        questions: Survey question of each column; a column without one shows its name.
    """

    folder: Path
    rule: Randomizer | Encoder
    title: str
    questions: Mapping[str, str]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a campaign's folder; raise PrivotError if it is none, or a file of it cannot be read."""
        path, encoder = folder / _ABOUT, folder / _ENCODER
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            title, questions = about["title"], about["questions"]
        except (FileNotFoundError, NotADirectoryError):
            raise PrivotError(
                f"{folder} is no campaign: give its folder, or make one: `privot campaign new`"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PrivotError(f"{path} cannot be read ({error}): copy it again") from None
        rule = Encoder.load(encoder) if encoder.exists() else Randomizer.load(folder / _RANDOMIZER)
        return cls(folder, rule, title, questions)

    @property
    def randomizer(self) -> Randomizer:
        """The randomizer; PrivotError if devices send shares."""
        if isinstance(self.rule, Encoder):
            raise PrivotError(
                f"{self.folder} is a campaign of two servers, which have shares and no reports: use "
                "`privot aggregate` for each server"
            )
        return self.rule

    @property
    def path(self) -> Path:
        """File of the rule."""
        return self.folder / _file_of(self.rule)

    @property
    def web(self) -> Path:
        """Folder of the pages."""
        return self.folder / _WEB

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return _read_facts(self.web)

    @property
    def addresses(self) -> dict[str, str]:
        """Addresses to which the page sends, of the `collector`, or of `leader` and `helper`."""
        return {name: self._facts[name] for name in _receivers(self.rule) if name in self._facts}

    @property
    def ports(self) -> list[int | None]:
        """Port of each of `addresses` if it is `http://127.0.0.1`; None for any other address."""
        ports = []
        for name, address in self.addresses.items():
            host, port = _machine(_origin_of(name, address))
            ports.append(port if host == "127.0.0.1" and address.startswith("http:") else None)
        return ports

    @property
    def public_key(self) -> str:
        """Public key of the rule's signature in base64, for devices to pin."""
        return str(self._facts.get("publicKey", ""))

    @property
    def analyst_key(self) -> str:
        """Public key to which the page seals reports, in base64; empty if they are not shuffled."""
        return str(self._facts.get("analystKey", ""))

    def servers(self, home: str | None = None, stores: str | None = None) -> dict[str, list[str]]:
        """Return the command of `privot` that runs each server, by role, in the order of `addresses`.

        Arguments:
            home: Path at which a server has this folder's `web` and `secrets`; this folder if None.
            stores: Folder of the servers' stores; this folder if None.
        """
        commands, home = {}, str(self.folder) if home is None else home
        for name in self.addresses:
            role = "shuffler" if self.analyst_key else name
            store = f"{stores or self.folder}/{'store' if name == 'collector' else name}"
            command = ["serve", f"{home}/{_WEB}/{self.path.name}", "--store", store]
            command += [] if role == "collector" else ["--role", role]
            if isinstance(self.rule, Encoder) and self.rule.proofs:
                command += ["--key", f"{home}/{_SECRETS}/{_VERIFY}"]
            commands[role] = command
        return commands


def _file_of(rule: Randomizer | Encoder) -> str:
    return _ENCODER if isinstance(rule, Encoder) else _RANDOMIZER


def _receivers(rule: Randomizer | Encoder) -> tuple[str, ...]:
    """Return the names of the servers to which a campaign's page sends."""
    return ("leader", "helper") if isinstance(rule, Encoder) else ("collector",)


def create(
    rule: Randomizer | Encoder,
    folder: Path,
    *,
    title: str,
    questions: Mapping[str, str] | None = None,
    **addresses: str,
) -> CampaignFolder:
    """Create a campaign's folder: a signed rule, pages, and keys.

    Arguments:
        rule: A randomizer or an encoder that browsers can run.
        folder: Folder to create; it must not exist.
        title: Title of the pages.
        questions: Survey questions, by column of the schema.
        addresses: Addresses to which the page sends: `collector` with a randomizer, `leader` and
            `helper` with an encoder.

    Raises:
        PrivotError: if browsers cannot run the rule, a question names no column, the folder exists, an
            address is missing, invalid or not encrypted, or both servers have the same host.

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
    about: dict[str, Any] = {"title": title, "questions": dict(questions or {})}
    _require_for_browsers(rule)
    if unknown := [name for name in about["questions"] if name not in rule.schema.columns]:
        raise PrivotError(f"question {unknown[0]!r} names no column of the schema: correct it")
    if folder.exists():
        raise PrivotError(f"{folder} exists, and no campaign's key is overwritten: name another")
    origins = _origins(rule, addresses)
    if shuffled := isinstance(rule, Randomizer) and rule.schema.shuffled_promise:
        # A random name gives it a fingerprint of its own. Otherwise reports that were sealed for another
        # campaign of the same randomizer could be put into a batch, and recognized there.
        rule = Randomizer.from_json(integrity.with_campaign(rule.to_json()))
    with replacing_folder(folder) as draft:
        path, web = draft / _file_of(rule), draft / _WEB
        rule.save(path)
        integrity.new_key(draft / _KEY)
        key = integrity.read_key(draft / _KEY)
        integrity.sign(path, key)
        (draft / _ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")
        web.mkdir()
        for public in (path, integrity.signature_path(path)):
            shutil.copyfile(public, web / public.name)
        facts = _facts_of(rule) | {"publicKey": integrity.public_key(key)} | addresses | about
        if shuffled:
            facts["analystKey"] = new_analyst_key(draft / _ANALYST)
        _write_pages(web, rule, facts, origins)
        _write_containers(CampaignFolder(draft, rule, title, about["questions"]))
    return CampaignFolder(folder, rule, title, about["questions"])


def _require_for_browsers(rule: Randomizer | Encoder) -> None:
    """Refuse a rule that browsers cannot run."""
    if rule.program is not None and not rule.schema.words:
        return
    if isinstance(rule, Randomizer):
        raise PrivotError(
            "browsers cannot draw reports of images, words, long vectors and curves, nor Gaussian "
            "noise: leave those columns out, or calibrate with mechanism='window'"
        )
    raise PrivotError(
        "browsers make shares of columns with codes or numbers, or of one place: leave images out, or "
        "encode them with `privot privatize`"
    )


def _origins(rule: Randomizer | Encoder, addresses: Mapping[str, str]) -> list[str]:
    """Return the servers' origins; refuse one for both, and http where the promise hides senders."""
    names = _receivers(rule)
    if {*addresses} != {*names}:
        raise PrivotError(
            f"the page sends to {' and '.join(names)}, and addresses are given for "
            f"{', '.join(addresses) or 'none'}: give one for each, and no other"
        )
    origins = [_origin_of(name, addresses[name]) for name in names]
    machines = [_machine(origin) for origin in origins]
    if len({*machines}) < len(names):
        raise PrivotError(
            f"leader and helper are both at {origins[0]}, and who has both shares reads the record: "
            "give addresses of two organizations"
        )
    # Nobody may see both a sender and what they send.
    needs_encryption = len(names) > 1 or rule.schema.shuffled_promise
    for origin, (_, port) in zip(origins, machines, strict=True):
        if port is None and needs_encryption and origin.startswith("http:"):
            raise PrivotError(
                f"{origin} is not encrypted, and who reads along sees who sends what, which the promise "
                "hides: give addresses that begin with https://"
            )
    return origins


def _machine(origin: str) -> tuple[str, int | None]:
    """Return the host of an origin, and its port if the host is this machine (else None)."""
    parts = urlsplit(origin)
    host = str(parts.hostname).rstrip(".")
    if not _THIS_MACHINE.fullmatch(host):
        return host, None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return "127.0.0.1" if host == "localhost" else host, port


def _write_containers(campaign: CampaignFolder) -> None:
    """Write the compose file of the campaign's servers, and configurations and secrets of its services.

    The verification key of shares is written only if both servers are on this machine, as in a trial.
    """
    proofs = isinstance(campaign.rule, Encoder) and campaign.rule.proofs
    verify_key: Any = {"source": _VERIFY, "target": f"/{_SECRETS}/{_VERIFY}"}
    services = []
    servers = campaign.servers("", "/store").items()
    for (role, command), port in zip(servers, campaign.ports, strict=True):
        needed = [verify_key] if proofs else ["database"] if role == "collector" else []
        if role == "collector":  # its store is a database
            command = [*command[:-1], _DATABASE, "--release", "/store"]
        inside = 8002 if role == "helper" else 8000
        values = {"ROLE": role, "PORT": f"{inside}", "PUBLISHED": f"{port or inside}"}
        values |= {"COMMAND": json.dumps(command + _IN_CONTAINER), "SECRETS": json.dumps(needed)}
        services.append(values | {"FINGERPRINT": campaign.rule.fingerprint})
    blocks: dict[str, list[dict[str, str]]] = {"all": [{}], "each": services}
    blocks["proofs"] = [{}] if proofs else []
    blocks |= {values["ROLE"]: [values] for values in services}
    private, configurations = campaign.folder / _SECRETS, campaign.folder / _CONTAINERS
    private.mkdir(mode=0o700)
    configurations.mkdir()
    is_secret = {"database": "collector" in blocks, _VERIFY: proofs and all(campaign.ports)}
    for name in ["grafana", *(name for name, needed in is_secret.items() if needed)]:
        (private / name).write_text(secrets.token_hex(16) + "\n", encoding="utf-8")
    for template in (files("privot.campaign") / _CONTAINERS).iterdir():
        folder = campaign.folder if template.name == "compose.yaml" else configurations
        text = _filled(template.read_text("utf-8"), blocks)
        (folder / template.name).write_text(text, encoding="utf-8")


def _filled(template: str, blocks: Mapping[str, list[dict[str, str]]]) -> str:
    """Return the text of a template, in which a line `#: NAME` begins the block NAME.

    A block is repeated for each mapping in `blocks[NAME]`, whose keys are replaced by its values.
    """
    text, *parts = re.split(r"^ *#: (\w+)\n", template, flags=re.MULTILINE)
    for name, block in zip(parts[::2], parts[1::2], strict=True):
        for values in blocks.get(name, []):
            text += re.sub(r"\b[A-Z]+\b", lambda word, v=values: v.get(word[0], word[0]), block)
    return text


def _facts_of(rule: Randomizer | Encoder) -> dict[str, Any]:
    """Return what the page verifies and states about a rule, with the labels of each reported coding."""
    facts: dict[str, Any] = {"fingerprint": rule.fingerprint}
    if isinstance(rule, Encoder):
        return facts | {"promise": rule.guarantee(rule.people).describe(), "people": rule.people}
    joint = rule.joint.design.columns if rule.joint else []
    guarantee, labels = rule.batch_guarantee(), {}  # of the least batch
    for name, column in rule.schema.coded.items():
        codings = column.codings if name in joint else (column.alphabet,)
        labels[name] = [[*column.labels_in(coding)] for coding in codings]
    noise = {row["column"]: row["in_words"] for row in rule.expected_noise()}
    return facts | {"promise": guarantee.describe(), "noise": noise, "labels": labels}


def _origin_of(name: str, address: str) -> str:
    """Return scheme, host and port of the address of `name`; raise PrivotError if it is not HTTP."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None or int(parts[2] or 0) >= 2**16:
        raise PrivotError(
            f"{name} is {address!r}: give its address, such as https://reports.example.org"
        )
    return parts[1].lower()


def _write_pages(
    web: Path, rule: Randomizer | Encoder, facts: Mapping[str, Any], origins: Iterable[str]
) -> None:
    """Write the pages into a folder, with their facts and the origins that their policy allows."""
    pages = files("privot.campaign") / "web"
    if not (pages / _CLIENT).is_file():
        raise PrivotError("the browser's client was not built: run `make client` in the checkout")
    further = _FOR_SHARES if isinstance(rule, Encoder) else _FOR_REPORTS
    for name, source in [*zip(_COMMON_FILES, _COMMON_FILES, strict=True), *further.items()]:
        text = (pages / source).read_text(encoding="utf-8")
        if name == "index.html":  # escaped, so that no text of a schema closes the script element
            text = text.replace("ORIGINS", " ".join(origins), 1)
            text = text.replace("CAMPAIGN", json.dumps(facts).replace("<", "\\u003c"), 1)
        (web / name).write_text(text, encoding="utf-8")


def _read_facts(web: Path) -> dict[str, Any]:
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
    new_texts = {_origin_of("address", old): new for old, new in replaced.items()}  # in the policy
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

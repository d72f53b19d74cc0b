"""Commands that receive reports: `privot campaign`, `privot serve` and `privot aggregate`."""

from __future__ import annotations

import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from typer import Argument, Option

from privot.cli.console import (
    Floor,
    Force,
    People,
    Proofs,
    ReportColumns,
    SchemaFile,
    complain,
    log,
    log_error,
    note,
    with_promise,
)
from privot.core.errors import PrivotError
from privot.core.files import claim_file, create, write_file
from privot.waves import Panel

if TYPE_CHECKING:
    from privot.aggregated import Server
    from privot.aggregated.shares import Role
    from privot.campaign import CampaignFolder

_HOST = "127.0.0.1"
_PAUSE = 1.0  # seconds before a server that ended is started again
_MAX_MINUTES = 10**5  # maximum time between two sealings
_SHARE_ROLES: tuple[Role, ...] = ("leader", "helper")
_FIRST, _SECOND = f"http://{_HOST}:8000", f"http://{_HOST}:8002"  # collector or leader; helper
# Code of a process that runs a command, and ends when its standard input does: with its parent.
_CHILD = """
import os, signal, sys, threading
end = lambda: (os.read(0, 1), os.kill(os.getpid(), signal.SIGTERM))
threading.Thread(target=end, daemon=True).start()
sys.argv[0] = "privot"
from privot.cli import main
main()
"""
_IDS = "ids.txt"  # ids of the shares that one of two servers has accepted


def new(
    schema: SchemaFile,
    epsilon: float | None = Option(None, help="Privacy loss of a report, without a [promise]."),
    output: Path = Option(Path("campaign"), "-o", "--output", help="Folder of the campaign."),
    title: str = Option("Take part", help="Title of the page."),
    question: list[str] | None = Option(None, help="COLUMN=TEXT of a question. May be repeated."),
    collector: str | None = Option(None, help=f"Address of the collector; {_FIRST} by default."),
    leader: str | None = Option(None, help=f"Address of the leader; {_FIRST} by default."),
    helper: str | None = Option(None, help=f"Address of the helper; {_SECOND} by default."),
    report_columns: ReportColumns = None,
    where: str | None = Option(
        None, help="local; shuffled: sealed reports are mixed; aggregated: two servers sum shares."
    ),
    delta: float = Option(0.0, help="Needed by shuffled reports, and by two servers."),
    people: People = None,
    proofs: Proofs = False,
    floor: Floor = None,
) -> None:
    """Create a campaign: calibrate and sign a randomizer, and write a page that randomizes answers.

    With --where shuffled the page seals reports to the analyst, whose key is made too. With --where
    aggregated the page splits answers into two shares, for two servers, which sum them.

    Example: privot campaign new schema.toml --epsilon 4 --title "How do you commute?" -o campaign/

    Shuffled: privot campaign new schema.toml --epsilon 1 --where shuffled --delta 1e-6 --people 5000

    Aggregated: privot campaign new schema.toml --leader https://a.example --helper https://b.example
    """
    from privot.aggregated import Encoder
    from privot.campaign import create
    from privot.randomizer import Randomizer
    from privot.schema import Schema

    questions: dict[str, str] = {}
    for argument in question or []:
        column, equals, text = argument.partition("=")
        if not equals or not text:
            raise PrivotError(f"--question {argument!r} asks nothing: write COLUMN=TEXT")
        questions[column] = text
    declared, epsilon, delta = with_promise(
        Schema.load(schema), epsilon, delta, where, people, floor
    )
    rule: Randomizer | Encoder
    if declared.promise is not None and declared.promise.where == "aggregated":
        if report_columns is not None:
            raise PrivotError("--report-columns is given: shares have all columns, leave it out")
        rule = Encoder.calibrate(declared, proofs=proofs)
        addresses = {"leader": _FIRST, "helper": _SECOND}
    elif proofs:
        raise PrivotError("--proofs is for sums by two servers: promise where = 'aggregated'")
    else:
        rule = Randomizer.calibrate(declared, epsilon, delta, report_columns=report_columns)
        addresses = {"collector": _FIRST}
    given = {"collector": collector, "leader": leader, "helper": helper}
    addresses |= {name: address for name, address in given.items() if address is not None}
    folder = create(rule, output, title=title, questions=questions, **addresses)
    promised = rule.promise if isinstance(rule, Encoder) else rule.schema.promise or rule.guarantee
    print(f"{output}: {promised}, fingerprint {folder.rule.fingerprint}")
    print(f"  devices pin the public key {folder.public_key}")
    if isinstance(rule, Encoder):
        sizes = [f"{rule.share_length(role):,} bytes to the {role}" for role in _SHARE_ROLES]
        print(f"  and send {' and '.join(sizes)}: whoever has both reads the record")
    elif folder.analyst_key:
        print(f"  and seal reports, {rule.guarantee} each, to the analyst {folder.analyst_key}")
        print(
            f"  {folder.folder / 'analyst.key'} opens them: keep it where the shuffler cannot read it"
        )
    print(f"  keep {folder.folder / 'signing.pem'} to yourself, and serve {folder.web}/ as it is")
    if all(folder.ports):
        print(f"next: {shlex.join(['privot', 'campaign', 'up', str(output)])}")
        return
    for role, command in folder.servers().items():
        print(f"next, on the {role}'s machine, with the page's --origin if its address differs:")
        print(f"next: {shlex.join(['privot', *command])}")


def status(
    campaign: Path = Argument(help="Folder of the campaign."),
    release: Path | None = Option(
        None, help="The release; by default the collector's. With two servers: a model to show."
    ),
    watch: float | None = Option(None, help="Seconds between repetitions.", min=0.1, max=86400),
) -> None:
    """Print the number of reports and the error to expect by now, and update the dashboard.

    With two servers, it counts reports of which both have a share, if their folders are in CAMPAIGN.

    Example: privot campaign status campaign/ --watch 5

    Aggregated: privot campaign status campaign/ --release model/
    """
    from privot.aggregated import AggregatedModel, Encoder
    from privot.campaign import CampaignFolder, write_share_status, write_status
    from privot.models import load
    from privot.randomizer import Release

    folder, model = CampaignFolder.load(campaign), None
    has_shares = isinstance(folder.rule, Encoder)
    if has_shares:
        path, loaded = campaign, None if release is None else load(release)
        model = loaded if isinstance(loaded, AggregatedModel) else None
        if model is not loaded:
            raise PrivotError(f"--release {release} was not learned from sums: give one that was")
    else:
        path = release or campaign / "store" / folder.rule.fingerprint / "release"
    while True:
        if watch is not None and not path.exists():
            note(f"{path} is not there yet")
        elif has_shares:
            print("\n".join(write_share_status(folder, model)), flush=True)
        else:
            written = write_status(folder, Release.open(path))
            error = written["expected_error"]
            error_text = "" if error is None else f"; error to expect by now: {error}"
            print(f"{written['reports']:,} reports{error_text}", flush=True)
        if watch is None:
            return
        time.sleep(watch)


def delete(
    campaign: Path = Argument(help="Folder of the campaign."),
    ids: list[str] | None = Argument(None, help="Ids of reports, 32 hexadecimal digits."),
    delete_all: bool = Option(False, "--all", help="Delete all reports of the campaign."),
    store: str | None = Option(None, help="--store of `privot serve`; CAMPAIGN/store by default."),
    release: str | None = Option(None, help="--release of `privot serve`, if it was given."),
    panel: Path | None = Option(None, help="--panel of `privot serve`, if it was given."),
) -> None:
    """Delete reports by id, or all, from the store, its release and its quarantine.

    Stop the collector first. Only the id stays in the store, and is refused from then on. Earlier
    results are not undone: a fitted model, a copy of the release, a backup. The promised ε holds for
    them. Fit again for a model without the report. After an interruption, run the command again.

    Example: privot campaign delete campaign/ 0123456789abcdef0123456789abcdef
    """
    from privot.campaign import CampaignFolder
    from privot.collector.arrivals import Campaign
    from privot.collector.sealing import (
        delete_reports,
        ids_of_texts,
        open_store,
        release_address,
        storage_at,
    )

    if bool(ids) == delete_all:
        raise PrivotError("ids are missing, or given beside --all: give one of the two")
    chosen = None if delete_all else ids_of_texts(ids or [])
    folder = CampaignFolder.load(campaign)
    if folder.analyst_key:
        raise PrivotError("nobody can tell which sealed report is whose: remove the whole store")
    address = store or str(folder.folder / "store")
    waves = None if panel is None else Panel.load(panel)
    fingerprint = folder.randomizer.fingerprint  # refuses shares, which have no store
    collected = Campaign.load(folder.path, waves)
    storage = storage_at(release_address(address, release, fingerprint))
    if "://" not in address and not (Path(address) / fingerprint).is_dir():
        raise PrivotError(f"{address} holds no reports of this campaign: give --store")
    opened = open_store(address, collected, complain)
    try:
        count = delete_reports(opened, storage, chosen)
    finally:
        opened.close()
    print(f"{count:,} deleted, {opened.count:,} left; their ids stay refused")
    note("models, copies and backups made before still have them: fit again, and see to those")


def up(
    campaign: Path = Argument(help="Folder of the campaign."),
    port: int | None = Option(
        None, help="Port of collector or leader; 0 for any; default: the page's.", min=0, max=65535
    ),
    helper_port: int | None = Option(
        None, help="Port of the helper; 0 for any; default: the page's.", min=0, max=65535
    ),
    page_port: int = Option(8001, help="Port of page and dashboard; 0 for any.", min=0, max=65535),
    every: float = Option(5.0, help="Seconds until reports are shown.", min=0.1, max=86400),
) -> None:
    """Run a campaign on this machine: its servers, its page, and the numbers of its dashboard.

    All listen on 127.0.0.1, and Ctrl-C stops all. Each server is a process that runs the command of its
    container in CAMPAIGN/compose.yaml, and is started again if it ends. Reports are in CAMPAIGN/store.
    If a port differs from that in the page, the page is served with this port; its file is unchanged.

    In a shuffled campaign the collector is a shuffler, which writes batches for `privot collect --key`.
    In a real survey shuffler and analyst are different parties: one that is both sees who sent each
    report, and only the report's noise protects the sender.

    In an aggregated campaign both servers run, with their folders in CAMPAIGN. This is a trial, for
    whoever runs both reads every record. Once there are enough reports for a batch, the commands that
    open it are printed.

    Example: privot campaign up campaign/
    """
    from privot.aggregated import Encoder
    from privot.campaign import CampaignFolder, page_server
    from privot.collector.app import listen

    folder = CampaignFolder.load(campaign)
    if helper_port is not None and not isinstance(folder.rule, Encoder):
        raise PrivotError(f"--helper-port {helper_port}: {campaign} has no helper, leave it out")
    ports = {"collector": port, "leader": port, "helper": helper_port}
    local_addresses = {}  # address on which to listen, by the address in the page
    with ExitStack() as reserved:  # all ports, until the last one is chosen
        for (name, address), named in zip(folder.addresses.items(), folder.ports, strict=True):
            if named is None:
                raise PrivotError(
                    f"the page of {campaign} sends to {address}, which is not of this machine: run "
                    f"`privot serve` there, or make the campaign with a --{name} of {_HOST}"
                )
            wanted = ports[name]
            listener = reserved.enter_context(listen(_HOST, named if wanted is None else wanted))
            local_addresses[address] = f"http://{_HOST}:{listener.getsockname()[1]}"
    with page_server(folder.web, local_addresses, _HOST, page_port) as page:
        options = ["--origin", page, "--origin", page.replace(_HOST, "localhost")]
        options += ["--seal-every", str(every / 60)]
        servers = zip(folder.servers().items(), local_addresses.values(), strict=True)
        commands = {
            role: [*command, *options, "--port", address.rpartition(":")[2]]
            for (role, command), address in servers
        }
        if isinstance(folder.rule, Encoder):
            log("Both servers are here, as a trial: whoever runs both reads every record.")
        update = _dashboard_update(folder)
        with _running(commands) as running:
            print(f"page       {page}/\ndashboard  {page}/dashboard.html")
            for name, address in zip(folder.addresses, local_addresses.values(), strict=True):
                print(f"{name:<9}  {address}")
            print("Ctrl-C stops everything", flush=True)
            stopping = Event()
            shown = Thread(target=_show, args=(update, every, stopping), daemon=True)
            shown.start()
            with suppress(KeyboardInterrupt):
                while True:
                    time.sleep(0.1)
                    for role, process in running.items():
                        if process.poll() is not None:
                            log_error(f"the {role} has ended ({process.returncode}), and restarts")
                            process.communicate()  # closes its pipes
                            time.sleep(_PAUSE)
                            running[role] = _start(commands[role])
            stopping.set()
            shown.join()
    log("stopped; everything that was acknowledged is stored")


@contextmanager
def _running(commands: Mapping[str, Sequence[str]]) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Run commands of `privot` until the block ends; provide their processes once all of them listen."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    running = {role: _start(command) for role, command in commands.items()}
    try:
        for process in running.values():
            assert process.stdout is not None
            if not process.stdout.readline():  # it ended, and printed why on standard error
                raise SystemExit(process.wait() or 1)
        yield running
    finally:
        for process in running.values():
            process.communicate()  # which closes its input


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command of `privot` in a process of its own."""
    arguments, pipe = [sys.executable, "-P", "-c", _CHILD, *command], subprocess.PIPE
    return subprocess.Popen(arguments, stdin=pipe, stdout=pipe, start_new_session=True)


def _dashboard_update(folder: CampaignFolder) -> Callable[[], str]:
    """Return a function that writes the dashboard's data, and returns the numbers of reports as text."""
    from privot.aggregated import Encoder
    from privot.campaign import write_share_status, write_status
    from privot.randomizer import Release

    if isinstance(folder.rule, Encoder):
        return lambda: "\n".join(write_share_status(folder))
    release = folder.folder / "store" / folder.rule.fingerprint / "release"
    manifest = release / "manifest.json"

    @lru_cache(maxsize=1)  # data are written only when the manifest's text has changed
    def update(manifest_text: str) -> str:
        if not manifest_text:
            return ""
        written = write_status(folder, Release.open(release))
        return f"{written['reports']:,} reports on the dashboard"

    return lambda: update(manifest.read_text() if manifest.exists() else "")


def _show(update: Callable[[], str], seconds: float, stopping: Event) -> None:
    """Update the dashboard at intervals until `stopping` is set; print its numbers if they changed."""
    last = ""
    while True:
        try:
            text = update()
        except (PrivotError, OSError) as error:
            text = f"the dashboard stays as it was: {error}"
        if text != last:
            print(last := text, flush=True)
        if stopping.wait(seconds):
            return


def serve(
    randomizers: list[Path] = Argument(help="Files randomizer.json, with signatures beside them."),
    store: str = Option("store", help="Store: a folder, or postgresql://USER@HOST/DATABASE."),
    release: str | None = Option(
        None,
        help="Folder, or address such as s3://bucket/path, in which each randomizer has a folder of "
        "shards; STORE/FINGERPRINT/release by default.",
    ),
    port: int = Option(8000, help="Port to listen on; 0 for any that is free.", min=0, max=65535),
    host: str = Option("127.0.0.1", help="Address to listen on: this machine alone by default."),
    origin: list[str] | None = Option(
        None, help="Origin of pages whose scripts may send: https://example.org. May be repeated."
    ),
    token_file: Path | None = Option(None, help="Accept only reports with a token of this file."),
    panel: Path | None = Option(None, help="Panel of people who report again: panel.json."),
    seal_every: float = Option(60.0, help="Minutes until reports become shards; 0: at the end."),
    role: str = Option(
        "collector",
        help="collector: accept reports; shuffler: accept sealed reports, and write them in batches; "
        "leader or helper: accept shares.",
    ),
    key: Path | None = Option(None, help="With --role leader or helper: --key of `aggregate`."),
) -> None:
    """Accept reports over HTTP, and acknowledge each once it is on the disk.

    Ctrl-C or SIGTERM stops the collector: stored reports are sealed into shards that `privot fit` reads.
    After any other end, start it again with the same store. In a network, use a proxy that provides TLS
    and hides addresses. Several collectors of one campaign share a database as --store, and a --release.

    A shuffler can open no report. It waits for as many reports as the randomizer's promise states, and
    writes them in random order as a batch for `privot collect --key`. Analyst and shuffler must be
    different parties.

    Example: privot serve randomizer.json --store store/ --port 8000

    Shuffler: privot serve randomizer.json --role shuffler --store mixed/

    A leader or a helper accepts shares into its folder, on which `privot aggregate` works meanwhile.

    Leader: privot serve encoder.json --role leader --store leader/
    """
    from privot.collector.admission import everybody, tokens
    from privot.collector.app import Collector, Sealer, ServedCampaign, Shuffler, listen
    from privot.collector.app import serve as run
    from privot.collector.arrivals import Campaign, GroupCommit, ShuffledCampaign
    from privot.collector.sealing import open_store, release_address, storage_at

    if not 0 <= seal_every <= _MAX_MINUTES:
        raise PrivotError(f"--seal-every is {seal_every}: give minutes from 0 to {_MAX_MINUTES:,}")
    if role not in ("collector", "shuffler", *_SHARE_ROLES):
        raise PrivotError(f"--role {role!r} is unknown: give collector, shuffler, leader or helper")
    shuffled, has_shares = role == "shuffler", role in _SHARE_ROLES
    if has_shares and (release or panel or len(randomizers) > 1):
        raise PrivotError(f"--role {role} takes one encoder.json, without --release and --panel")
    if key and not has_shares:
        raise PrivotError(f"--key {key} is of servers of shares: give --role leader or helper")
    if (shuffled or has_shares) and "://" in store:
        raise PrivotError(f"--store {store} is a database, and a {role} keeps a folder: give one")
    for text in origin or []:
        _require_origin(text)
    admit = everybody if token_file is None else tokens(token_file)
    waves = None if panel is None else Panel.load(panel)
    campaign_type, sealer_type = (ShuffledCampaign, Shuffler) if shuffled else (Campaign, Sealer)
    loaded = [] if has_shares else [campaign_type.load(path, waves) for path in randomizers]
    campaigns = {campaign.fingerprint: campaign for campaign in loaded}
    all_served, sealers = [], []
    with listen(host, port) as listener:
        for campaign in campaigns.values():
            storage = storage_at(release_address(store, release, campaign.fingerprint))
            opened = open_store(store, campaign, log_error)
            all_served.append(ServedCampaign(campaign, GroupCommit(opened)))
            sealers.append(sealer_type(all_served[-1], storage, log))
            randomizer = campaign.randomizer
            promised = str(randomizer.schema.promise or randomizer.guarantee)
            promised = promised if waves is None else str(randomizer.panel_guarantee(waves))
            log(f"{campaign.fingerprint}: {opened.count:,} reports so far, {promised}")
        if has_shares:
            from privot.aggregated.app import ServedShares, ShareCollector

            _server(Path(store), randomizers[0], role, key)  # creates or checks the folder
            server = ServedShares(Path(store), log_error)
            log(f"{server.fingerprint}: {server.count:,} shares so far, {server.encoder.promise}")
            collector: Collector = ShareCollector(server, admit, origin or [], log=log_error)
        else:
            collector = Collector(all_served, admit, origin or [], log=log_error)
        bound_host, bound_port = listener.getsockname()[:2]
        bound_host = f"[{bound_host}]" if ":" in bound_host else bound_host
        print(f"http://{bound_host}:{bound_port}", flush=True)
        run(collector, listener, sealers, 60 * seal_every)
    log("stopped; everything that was acknowledged is stored")


def _require_origin(text: str) -> None:
    """Refuse a text that is no origin as browsers send it, or that contains a wildcard."""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or text != f"{parts.scheme}://{parts.netloc}" or "*" in text or "@" in text:
        raise PrivotError(f"--origin {text!r} is no origin: give https://HOST, without a path")


def aggregate(
    folder: Path = Argument(help="The server's folder, which --encoder and --role create."),
    shares: list[Path] | None = Argument(None, help="Files of shares to accept."),
    encoder: Path | None = Option(None, help="Encoder of the shares: encoder.json."),
    role: str | None = Option(None, help="leader or helper."),
    release: list[Path] | None = Option(
        None,
        help="ids.txt of each server: what both list is summed, once and with noise. The second server "
        "also gets the sums of the first, and opens no other reports.",
    ),
    output: Path = Option(Path("sums.json"), "-o", "--output", help="With --release: the sums."),
    key: Path | None = Option(None, help="File of the proofs' key, which the leader makes."),
    verify: Path | None = Option(None, help="proofs.bin of the other server, to verify reports."),
    force: Force = False,
) -> None:
    """Accept shares as one of two servers that sum them, or release the noisy sum of a batch.

    Records are private if one of the two servers is honest, so different parties run them. Each server
    gets its own file of shares. FOLDER/ids.txt, for the other server, lists the accepted reports. If
    shares have proofs, the other server gets FOLDER/proofs.bin first, and ids.txt lists verified ones.

    Example: privot aggregate leader/ leader.shares --encoder encoder.json --role leader

    Then: privot aggregate leader/ --release leader/ids.txt --release helper/ids.txt -o leader.json
    """
    if release and (shares or verify):
        raise PrivotError("--release takes neither SHARES nor --verify: give them to a run before")
    server = _server(folder, encoder, role, key)
    if release:
        claim_file(output, inputs=release, suffixes=(".json",), force=force)
        text = server.release(_listed_by_all(release)).read_text(encoding="utf-8")
        write_file(output, text)
        print(f"{output}: the {server.role}'s noisy sums, to publish")
        return
    num_new = sum(server.accept(*_read_shares(path, server)) for path in shares or [])
    if verify:
        server.verify(verify)
    elif server.encoder.proofs:
        print(f"{server.prepare()}: for the other server alone, to verify reports")
    ids = server.ids()
    text = "".join(f"{share_id.hex()}\n" for share_id in sorted(ids))
    write_file(folder / _IDS, text)
    people = server.encoder.people
    state = "verified" if server.encoder.proofs else "in all"
    print(f"{folder}: {num_new:,} new shares, {len(ids):,} {state}; a batch is {people:,} or more")


def _server(folder: Path, encoder: Path | None, role: str | None, key: Path | None) -> Server:
    """Return the server of a folder; create the folder if it does not exist."""
    from privot.aggregated import Encoder, Server

    if not folder.exists():
        if encoder is None or role is None or role not in _SHARE_ROLES:
            raise PrivotError(f"{folder} is not there: give --encoder and --role to make it")
        Server.create(folder, Encoder.load(encoder), role, _verify_key(key, role) if key else None)
    server = Server(folder)
    if role not in (None, server.role):
        raise PrivotError(f"role {role!r}: {folder} is the {server.role}'s")
    if key and key.exists() and _verify_key(key, server.role) != server.verify_key():
        raise PrivotError(f"--key {key}: {folder} has another, and no report is verified by two")
    if encoder and Encoder.load(encoder).fingerprint != server.encoder.fingerprint:
        raise PrivotError(f"{folder} is of another encoder: give its own, or name another folder")
    return server


def _verify_key(path: Path, role: str) -> bytes:
    """Return the verification key in a file; the leader creates the file if it does not exist."""
    if role == "leader" and not path.exists():
        create(path, secret=True)
        path.write_text(secrets.token_hex(16) + "\n", encoding="utf-8")
        note(f"{path}: the key of both servers; give it to the other, and to nobody else")
    try:
        return bytes.fromhex(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PrivotError(f"--key {path} cannot be read ({error}): copy it again") from None


def _read_shares(path: Path, server: Server) -> list[bytes]:
    """Return the shares of a file, in which they follow one another."""
    length = server.encoder.share_length(server.role)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PrivotError(f"shares {path} cannot be read: {error}") from None
    if len(data) % length:
        raise PrivotError(f"{path} holds no whole shares of the {server.role}: give its own file")
    return [data[start : start + length] for start in range(0, len(data), length)]


def _listed_by_all(files: Sequence[Path]) -> frozenset[bytes]:
    """Return the ids that all lists have; refuse if sums among the files are of other ids."""
    from privot.aggregated.server import batch_name, unsealed

    try:
        texts = [path.read_text(encoding="utf-8") for path in files]
        sums = [text for text in texts if text.startswith("{")]
        lists = [text.split() for text in texts if not text.startswith("{")]
        if len(lists) < 2:  # a report that the other server lacks would be opened, and lost
            raise ValueError(f"{len(lists)} lists of ids, not two")
        ids = frozenset.intersection(*(frozenset(map(bytes.fromhex, digits)) for digits in lists))
        others = {unsealed(text)["batch"] for text in sums} - {batch_name(ids)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PrivotError(f"--release cannot be read ({error}): give the servers' {_IDS}") from None
    if others:
        raise PrivotError(
            f"--release has sums of other reports than both {_IDS} list, and no report is opened twice: "
            "give the lists by which they were opened"
        )
    return ids

"""The command that takes devices' reports over HTTP. No PyTorch."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from typer import Argument, Option

from privot.cli.console import complain, note
from privot.errors import PrivotError

_MOST_SECONDS = 10**7


def serve(
    randomizers: Annotated[
        list[Path],
        Argument(help="Whose reports to take: randomizer.json, its signature beside it."),
    ],
    store: Annotated[
        str,
        Option(help="Where reports are kept: a folder, or postgresql://USER@HOST/DATABASE."),
    ] = "store",
    release: Annotated[
        str | None,
        Option(
            help="Where shards go, a folder for each randomizer: a folder, or an address such as "
            "s3://bucket/path; STORE/FINGERPRINT/release by default."
        ),
    ] = None,
    port: Annotated[
        int, Option(help="To listen on; 0 for any that is free.", min=0, max=65535)
    ] = 8000,
    host: Annotated[
        str, Option(help="Whose requests: of this machine alone by default.")
    ] = "127.0.0.1",
    origin: Annotated[
        list[str] | None,
        Option(help="Of pages whose scripts may send: https://example.org. May be repeated."),
    ] = None,
    token_file: Annotated[
        Path | None, Option(help="Take reports only from who sends one of its lines as a token.")
    ] = None,
    panel: Annotated[
        Path | None,
        Option(help="In which people report again: panel.json. Shards are of one wave each."),
    ] = None,
    seal_every: Annotated[
        float, Option(help="Minutes after which reports become shards; 0 only at the end.")
    ] = 60.0,
) -> None:
    """Take reports over HTTP, and acknowledge each once it is on the disk.

    Ctrl-C, or SIGTERM, ends it: what was acknowledged is stored, and sealed into shards that
    `privot fit` reads. After any other end, start it again with the same store. Towards a network, put a
    proxy before it, which speaks TLS and hides addresses.

    Example: privot serve randomizer.json --store store/ --port 8000
    """
    from privot.collector.admission import everybody, tokens
    from privot.collector.app import Collector, Desk
    from privot.collector.arrivals import Campaign
    from privot.collector.committing import GroupCommit
    from privot.collector.server import Sealer, listen
    from privot.collector.server import serve as run
    from privot.collector.shelves import shelf_at
    from privot.collector.stores import open_store, release_address
    from privot.waves import Panel

    if not 0 <= seal_every * 60 <= _MOST_SECONDS or math.isnan(seal_every):
        raise PrivotError(f"--seal-every {seal_every} cannot be: give minutes, such as 60")
    for each in origin or []:
        _require_origin(each)
    admit = everybody if token_file is None else tokens(token_file)
    waves = None if panel is None else Panel.load(panel)
    loaded = [Campaign.load(path, waves) for path in randomizers]
    campaigns = {campaign.fingerprint: campaign for campaign in loaded}
    desks, sealers = [], []
    with listen(host, port) as listener:
        for campaign in campaigns.values():
            at = release_address(store, release, campaign.fingerprint)
            opened = open_store(store, campaign, complain)
            desks.append(Desk(campaign, GroupCommit(opened)))
            sealers.append(Sealer(desks[-1], shelf_at(at), note))
            promised = campaign.randomizer.guarantee
            note(f"{campaign.fingerprint}: {opened.count:,} reports so far, {promised}")
        where, number = listener.getsockname()[:2]
        print(f"http://{f'[{where}]' if ':' in where else where}:{number}", flush=True)
        collector = Collector(desks, admit, origin or [], told=complain)
        run(collector, listener, sealers, 60 * seal_every)
    note("stopped; everything that was acknowledged is stored")


def _require_origin(text: str) -> None:
    """Refuse what no browser sends as an origin, and what stands for all of them."""
    try:
        parts = urlsplit(text)
        right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        right = False
    if not right or text != f"{parts.scheme}://{parts.netloc}" or "*" in text or "@" in text:
        raise PrivotError(f"--origin {text!r} is no origin: give https://HOST, without a path")

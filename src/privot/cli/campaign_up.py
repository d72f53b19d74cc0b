"""The command that runs a whole campaign on this machine: collector, page and dashboard."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from typer import Argument, Option

from privot.cli.console import complain, note
from privot.errors import PrivotError

if TYPE_CHECKING:
    from privot.campaign import CampaignFolder

_HOST = "127.0.0.1"
_LOCAL = (_HOST, "localhost")


def up(
    campaign: Annotated[Path, Argument(help="Folder of the campaign.")],
    port: Annotated[
        int | None,
        Option(help="Of the collector; 0 for any. By default that of its page.", min=0, max=65535),
    ] = None,
    page_port: Annotated[
        int, Option(help="Of the page and the dashboard; 0 for any.", min=0, max=65535)
    ] = 8001,
    every: Annotated[
        float, Option(help="Seconds after which reports are sealed and shown.", min=0.1, max=86400)
    ] = 5.0,
) -> None:
    """Run a campaign on this machine: its collector, its page, and the numbers of its dashboard.

    All listen on 127.0.0.1, and Ctrl-C stops all. Reports are in CAMPAIGN/store. If the collector has
    another port than the page was made for, the page is served with that one, and its file stays.

    Example: privot campaign up campaign/
    """
    from privot.campaign import CampaignFolder
    from privot.campaign.pages import page_server
    from privot.collector.app import Collector, Desk
    from privot.collector.arrivals import Campaign
    from privot.collector.committing import GroupCommit
    from privot.collector.server import Sealer, listen, serve
    from privot.collector.shelves import shelf_at
    from privot.collector.stores import open_store, release_address

    made = CampaignFolder.load(campaign)
    parts = urlsplit(made.collector)
    if parts.scheme != "http" or parts.hostname not in _LOCAL:
        raise PrivotError(
            f"the page of {campaign} sends to {made.collector}, which is not of this machine: run "
            "`privot serve` there, or make the campaign with a --collector of 127.0.0.1"
        )
    store, asked = str(made.folder / "store"), Campaign.load(made.folder / "randomizer.json")
    with listen(_HOST, (parts.port or 80) if port is None else port) as listener:
        collecting = f"http://{_HOST}:{listener.getsockname()[1]}"
        with page_server(made, collecting, _HOST, page_port) as page:
            release = release_address(store, None, asked.fingerprint)
            desk = Desk(asked, GroupCommit(open_store(store, asked, complain)))
            print(f"page       {page}/\ndashboard  {page}/dashboard.html\ncollector  {collecting}")
            print("Ctrl-C stops all of it", flush=True)
            stopping = Event()
            shown = Thread(target=_show, args=(made, Path(release), every, stopping))
            shown.start()
            try:
                origins = [page, page.replace(_HOST, "localhost")]
                sealers = [Sealer(desk, shelf_at(release), note)]
                serve(Collector([desk], origins=origins, told=complain), listener, sealers, every)
            finally:
                stopping.set()
                shown.join()
    note("stopped; everything that was acknowledged is stored")


def _show(made: CampaignFolder, release: Path, seconds: float, stopping: Event) -> None:
    """Write the dashboard's numbers whenever the release has changed, until it is over."""
    from privot.campaign.status import write_status
    from privot.release import Release

    manifest, seen = release / "manifest.json", ""
    while not stopping.wait(seconds):
        try:
            if not manifest.exists() or (text := manifest.read_text()) == seen:
                continue
            seen = text
            found = write_status(made, Release.open(release))
            print(f"{found['reports']:,} reports on the dashboard", flush=True)
        except (PrivotError, OSError) as error:
            complain(f"the dashboard stays as it was: {error}")

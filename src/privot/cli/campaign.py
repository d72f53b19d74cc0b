"""Commands of who asks many people by their browsers: a campaign, and how far it is."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from typer import Argument, Option

from privot.cli.console import SchemaFile, complain, note
from privot.errors import PrivotError


def new(
    schema: SchemaFile,
    epsilon: Annotated[float, Option(help="Privacy loss of one person's report.")],
    output: Annotated[Path, Option("-o", "--output", help="Folder of the campaign.")] = Path(
        "campaign"
    ),
    title: Annotated[str, Option(help="Of the page.")] = "Take part",
    question: Annotated[
        list[str] | None, Option(help="COLUMN=TEXT: what people are asked. May be repeated.")
    ] = None,
    collector: Annotated[
        str, Option(help="Address of the collector, to which the page sends.")
    ] = "http://127.0.0.1:8000",
    report_columns: Annotated[
        int | None, Option(help="Columns one person reports, drawn by fresh coins.")
    ] = None,
) -> None:
    """Make a campaign: calibrate and sign a randomizer, and write a page that asks by it.

    Example: privot campaign new schema.toml --epsilon 4 --title "How do you commute?" -o campaign/
    """
    from privot.campaign import create
    from privot.release import Randomizer
    from privot.schema import Schema

    asked: dict[str, str] = {}
    for given in question or []:
        column, equals, text = given.partition("=")
        if not equals or not text:
            raise PrivotError(f"--question {given!r} asks nothing: write COLUMN=TEXT")
        asked[column] = text
    randomizer = Randomizer.calibrate(Schema.load(schema), epsilon, report_columns=report_columns)
    made = create(randomizer, output, title=title, collector=collector, questions=asked)
    print(f"{output}: {randomizer.guarantee}, fingerprint {randomizer.fingerprint}")
    print(f"  keep {made.folder / 'signing.pem'} to yourself, and serve {made.web}/ as it is")
    if urlsplit(collector).hostname in ("127.0.0.1", "localhost"):
        print(f"next: {shlex.join(['privot', 'campaign', 'up', str(output)])}")
    else:
        serve = [
            "privot",
            "serve",
            str(output / "randomizer.json"),
            "--store",
            str(output / "store"),
        ]
        print(
            "next, on the collector's machine, with --origin of the page if it has another address:"
        )
        print(f"next: {shlex.join(serve)}")


def status(
    campaign: Annotated[Path, Argument(help="Folder of the campaign.")],
    release: Annotated[
        Path | None, Option(help="The release; by default what its collector sealed.")
    ] = None,
    watch: Annotated[
        float | None, Option(help="Do it again after so many seconds, until Ctrl-C.")
    ] = None,
) -> None:
    """How many have reported, what error to expect by now, and what the dashboard shows.

    Example: privot campaign status campaign/ --watch 5
    """
    from privot.campaign import CampaignFolder
    from privot.campaign.status import write_status
    from privot.release import Release

    made = CampaignFolder.load(campaign)
    path = release or campaign / "store" / made.randomizer.fingerprint / "release"
    while True:
        if watch is not None and not path.exists():
            note(f"{path} is not there yet")
        else:
            found = write_status(made, Release.open(path))
            expected = found["expected_error"]
            more = "" if expected is None else f"; error to expect by now: {expected}"
            print(f"{found['reports']:,} reports{more}", flush=True)
        if watch is None:
            return
        time.sleep(watch)


def delete(
    campaign: Annotated[Path, Argument(help="Folder of the campaign.")],
    ids: Annotated[
        list[str] | None,
        Argument(help="Of reports: 32 hexadecimal digits each, as the page and reports say it."),
    ] = None,
    every: Annotated[bool, Option("--all", help="Delete all reports of the campaign.")] = False,
    store: Annotated[
        str | None, Option(help="As `privot serve` has it; CAMPAIGN/store by default.")
    ] = None,
    release: Annotated[
        str | None, Option(help="As `privot serve` has it: where shards are, if not in the store.")
    ] = None,
    panel: Annotated[
        Path | None,
        Option(help="As `privot serve` has it: panel.json, of people who report again."),
    ] = None,
) -> None:
    """Delete one person's report, or all, by id: from the store, its release and its quarantine.

    Stop whatever seals the campaign first. An id that was deleted stays refused, and nothing else of the
    report stays in the store. What was learned or published before is not undone: a fitted model, a copy
    of the release, a backup. The promised ε bounds what these say about the person, now as before. Fit
    again to have a model without the report. Broken off, run it again.

    Example: privot campaign delete campaign/ 0123456789abcdef0123456789abcdef
    """
    from privot.campaign import CampaignFolder
    from privot.collector.arrivals import Campaign
    from privot.collector.deleting import delete_reports, ids_of_texts
    from privot.collector.shelves import shelf_at
    from privot.collector.stores import open_store, release_address
    from privot.waves import Panel

    if bool(ids) == every:
        raise PrivotError("ids are missing, or given beside --all: give one of the two")
    named = None if every else ids_of_texts(ids or [])
    made = CampaignFolder.load(campaign)
    address = store or str(made.folder / "store")
    waves = None if panel is None else Panel.load(panel)
    asked = Campaign.load(made.folder / "randomizer.json", waves)
    shelf = shelf_at(release_address(address, release, asked.fingerprint))
    if "://" not in address and not (Path(address) / asked.fingerprint).is_dir():
        raise PrivotError(f"{address} holds no reports of this campaign: give --store")
    opened = open_store(address, asked, complain)
    try:
        count = delete_reports(opened, shelf, named)
    finally:
        opened.close()
    print(f"{count:,} deleted, {opened.count:,} left; their ids stay refused")
    note(
        "models, copies and backups that were made before still have them: fit again, and see to those"
    )

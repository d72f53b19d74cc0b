"""Commands of who asks many people by their browsers: a campaign, and how far it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from privot.cli.console import SchemaFile, note
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
    print(f"next: privot serve {output / 'randomizer.json'} --store {output / 'store'}")


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

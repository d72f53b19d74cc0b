"""`privot account spent` and `adopt`: what a curator's runs have spent on this user account.

What is printed tells which runs were on the same records: it is for the curator, not for publication.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privot.cli.console import note


def spent() -> None:
    """List all runs on private records that this user account made, records by records.

    Example: privot account spent
    """
    from privot.disk import accounts

    known = accounts()
    for number, account in enumerate(known, start=1):
        print(f"records {number}: {account}")
        for run in account.runs:
            print(f"  {run.begun}  {run.uses} declared: {run.guarantee}")
    if not known:
        print("no run on private records is known to this account")
    note("for the curator: whether two runs had the same records is a function of raw data")


def adopt(
    ledger: Annotated[
        Path,
        typer.Argument(help="A ledger's file, or a secret model's folder, that was moved here."),
    ],
) -> None:
    """Let this account use a ledger that came from elsewhere, if the original is never used again.

    Example: privot account adopt secret/
    """
    from privot.disk import adopt as adopt_ledger

    file = ledger / "ledger.json" if ledger.is_dir() else ledger
    adopt_ledger(file)
    print(f"{file}: this account counts on from here; use the original never again")

"""Public data sets: where they are, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privot.cli.console import note


def fetch(
    name: Annotated[str, typer.Argument(help="mnist, fashion_mnist or usps.")],
    to: Annotated[Path, typer.Option("--to", help="Folder of data sets.")],
    address: Annotated[
        str | None, typer.Option(help="Folder on the web to take the files from instead.")
    ] = None,
) -> None:
    """Fetch a public data set; run it again to resume, and it is checked at the end.

    Example: privot datasets fetch mnist --to data
    """
    from privot.datasets import fetch as fetch_dataset

    target = fetch_dataset(name, to, address=address, say=note)
    print(target)


def check(
    name: Annotated[str, typer.Argument(help="mnist, fashion_mnist or usps.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of data sets; PRIVOT_DATA by default.")
    ] = None,
) -> None:
    """Say what a folder holds of a data set, after its checksums were verified.

    Example: privot datasets check mnist --data data
    """
    from privot.datasets import load_images

    images = load_images(name, data)
    height, width = images.x_train.shape[1:]
    print(
        f"{name}: {len(images.x_train):,} + {len(images.x_test):,} images of {height} × {width}, "
        "checksums verified"
    )

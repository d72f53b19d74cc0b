"""Public data sets, fetched: resumed where a download broke off, checked when whole; made-up people.

A file grows as `NAME.part`; what is there already is asked for no second time (an HTTP Range request;
a server that knows none sends the whole file again). Only when all files of a data set are there and
their values have the known checksums is it called fetched. Damaged files that were fetched are removed,
so that the next try starts clean; those that were there before are kept.

**People** of the demo live in 5 383 populated places of the United Kingdom, © GeoNames
(https://www.geonames.org), CC BY 4.0, derived by `scripts/derive_places.py`. They are drawn in
proportion to population, and made up: the file describes towns, not persons.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from privot.datasets.images import Source, find_source
from privot.errors import MOST_ROWS, PrivotError, require_count
from privot.files import cannot_write

_BLOCK = 2**16
_SECONDS = 30.0
_PARTIAL, _PAST_THE_END = 206, 416


def fetch(
    name: str,
    folder: str | Path,
    *,
    address: str | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Bring the data set `name` to `folder/name` and return that folder.

    Arguments:
        name: `"mnist"`, `"fashion_mnist"` or `"usps"`.
        folder: Where data sets live; made if it is not there.
        address: Folder on the web to take the files from, instead of the publishers'.
        say: Told what happens.

    Raises:
        PrivotError: if no address answers, or what came is not the published data set.
    """
    source = find_source(name)
    if address is not None:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise PrivotError(
                f"address {address!r} is no folder on the web: give one such as "
                "https://example.org/mnist"
            )
        source = replace(source, addresses=(address.rstrip("/") + "/",))
    return fetch_source(source, Path(folder), say)


def fetch_source(source: Source, folder: Path, say: Callable[[str], None] = print) -> Path:
    """`fetch`, for any source; resumes partial files, verifies the checksums at the end."""
    target, archive = folder / source.name, folder / f"{source.name}.npz"
    if archive.exists():
        raise PrivotError(f"{archive} is there already: remove it, or fetch to another folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(target, error) from None
    missing = [target / file for file in source.files if not (target / file).exists()]
    for path in missing:
        _from_any(source, path, say)
    try:
        source.read(folder)
    except PrivotError as error:
        for path in missing:
            path.unlink()
        kept = sorted(map(str, source.found(folder)))
        more = f"; there before, and kept: {', '.join(kept)}" if kept else ""
        raise PrivotError(f"{error}{more}") from None
    say(f"{source.name} is in {target}, checksums verified")
    return target


def _from_any(source: Source, path: Path, say: Callable[[str], None]) -> None:
    failures = []
    for address in source.addresses:
        url = address + path.name
        try:
            say(url)
            download(url, path)
            return
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{url}: {error}")
    raise PrivotError(
        f"{path.name} could not be fetched ({'; '.join(failures)}): run the command again to resume, "
        f"or put the file at {path} by hand"
    )


def download(url: str, path: Path) -> None:
    """One file; continues `path.part` if it is there, and renames it when all of it has come.

    Raises:
        OSError: if the server does not answer, or stops in the middle; what came is kept.
    """
    part = path.with_name(path.name + ".part")
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            expected = answer.headers.get("Content-Length")
            received = 0
            with open(part, "ab" if answer.status == _PARTIAL else "wb") as file:
                while block := answer.read(_BLOCK):
                    received += file.write(block)
            if expected is not None and received < int(expected):
                raise OSError(f"the connection ended after {received} of {expected} bytes")
    except urllib.error.HTTPError as error:
        # Nothing beyond what is there: it was whole, only not renamed yet.
        if not (start and error.code == _PAST_THE_END):
            raise
    part.replace(path)


# Longitudes and latitudes that the demo's schema declares.
BOX = ((-8.7, 1.8), (49.8, 60.9))
PLACES_FILE = Path(__file__).with_name("places.csv")

SCHEMA_TOML = """\
unit = "person"

[columns.home]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = [[-8.7, 1.8], [49.8, 60.9]]
"""


def draw_people(num_people: int, seed: int) -> pa.Table:
    """Home towns of made-up people, drawn in proportion to population: longitude, latitude.

    Examples:
        >>> people = draw_people(3, seed=0)
        >>> people.num_rows, people.column_names
        (3, ['longitude', 'latitude'])
    """
    num_people = require_count("people", num_people, MOST_ROWS)
    places = pa_csv.read_csv(PLACES_FILE)
    population = places["population"].to_numpy().astype(float)
    town = np.random.default_rng(seed).choice(
        len(population), size=num_people, p=population / population.sum()
    )
    return places.select(["longitude", "latitude"]).take(town)

"""Reports on disk: a Parquet file whose metadata carries the randomizer's JSON."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from privot.errors import PrivotError
from privot.files import replacing_file

_METADATA_KEY = b"privot.randomizer"


def write_reports(path: str | Path, table: pa.Table, randomizer: str) -> None:
    """Write a table with its randomizer; an existing file survives any failure."""
    metadata = {_METADATA_KEY: randomizer.encode()}
    with replacing_file(path) as draft:
        pq.write_table(table.replace_schema_metadata(metadata), draft)


def read_reports(path: str | Path) -> tuple[pa.Table, str]:
    """The table and the randomizer's JSON, unchecked.

    Raises:
        PrivotError: if the file is missing, truncated, or carries no randomizer.
    """
    path = Path(path)
    if not path.is_file():
        raise PrivotError(f"release {path} is not there: check the path")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise PrivotError(
            f"release {path} cannot be read ({reason}): copy it again, it may be truncated"
        ) from None
    text = (table.schema.metadata or {}).get(_METADATA_KEY)
    if text is None:
        raise PrivotError(
            f"{path} carries no randomizer, so its noise and its guarantee are unknown: "
            "use the file that `privot privatize` wrote"
        )
    return table.replace_schema_metadata(None), text.decode(errors="replace")

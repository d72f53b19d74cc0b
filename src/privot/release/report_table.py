"""The rows of a release, in memory or in a Parquet file, read piece by piece.

Whoever only counts reports never holds more than a piece of them: memory grows with what is counted. A
file's metadata carries the randomizer that made its reports. It is read anew in every pass, so it has to
stay where it is for as long as the table is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

from privot.errors import PrivotError
from privot.files import replacing_file

PIECE = 2**17
_METADATA_KEY = b"privot.randomizer"


@dataclass(frozen=True, eq=False)
class ReportTable:
    """Rows of reports, of which only a piece need be in memory.

    Arguments:
        dataset: An Arrow dataset: of tables in memory, of a file, or of several of either.
        source: What error messages call it.
    """

    dataset: ds.Dataset
    source: str = "the release"

    @classmethod
    def of(cls, *tables: pa.Table) -> Self:
        """Tables in memory, one after the other; no copy is made."""
        return cls(ds.dataset(pa.concat_tables(tables)))

    @classmethod
    def chain(cls, parts: Sequence[ReportTable]) -> Self:
        """Several tables, one after the other."""
        return cls(ds.dataset([part.dataset for part in parts]))

    @classmethod
    def open(cls, path: str | Path) -> tuple[Self, str]:
        """A file's rows, not yet read, and the JSON of the randomizer that it carries, unchecked.

        Raises:
            PrivotError: if the file is missing, truncated, or carries no randomizer.
        """
        path = Path(path)
        if not path.is_file():
            raise PrivotError(f"release {path} is not there: check the path")
        try:
            local = pyarrow.fs.LocalFileSystem()
            dataset = ds.dataset(str(path), format="parquet", filesystem=local)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, error) from None
        text = (dataset.schema.metadata or {}).get(_METADATA_KEY)
        if text is None:
            raise PrivotError(
                f"{path} carries no randomizer, so its noise and its guarantee are unknown: "
                "use the file that `privot privatize` wrote"
            )
        return cls(dataset, str(path)), text.decode(errors="replace")

    def __len__(self) -> int:
        return int(self.dataset.count_rows())

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self.dataset.schema.names)

    def pieces(self, size: int = PIECE) -> Iterator[pa.Table]:
        """All rows in order, about `size` at a time.

        Raises:
            PrivotError: if the file turns out to be damaged, or is gone.
        """
        held: list[pa.RecordBatch] = []
        rows = 0
        try:
            # One thread that reads one batch ahead: more would hold more of the file.
            for batch in self.dataset.to_batches(
                batch_size=size, batch_readahead=1, fragment_readahead=1, use_threads=False
            ):
                held.append(batch)
                rows += batch.num_rows
                if rows >= size:
                    yield _joined(held)
                    held, rows = [], 0
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.source, error) from None
        if rows:
            yield _joined(held)

    def save(self, path: str | Path, randomizer: str) -> None:
        """Write a file that carries the randomizer's JSON; an existing one survives any failure."""
        schema = self.dataset.schema.with_metadata({_METADATA_KEY: randomizer.encode()})
        with replacing_file(path) as draft, pq.ParquetWriter(draft, schema) as writer:
            for piece in self.pieces():
                writer.write_table(piece.replace_schema_metadata(schema.metadata))


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """One table of batches, whose metadata may differ, without any."""
    return pa.concat_tables([pa.table(batch).replace_schema_metadata(None) for batch in batches])


def _unreadable(source: object, error: Exception) -> PrivotError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return PrivotError(
        f"release {source} cannot be read ({reason}): copy it again, it may be truncated"
    )

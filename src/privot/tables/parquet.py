"""What is wrong with a Parquet file, in words of our own, wherever one is read.

Arrow's messages have several lines, name its own steps, and may show bytes of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from privot.errors import PrivotError

# What Arrow says when the footer, which is at a file's end, is not what it must be.
_NO_FOOTER = ("magic bytes", "footer", "file size", "thrift", "metadata")


def damage_of(error: Exception) -> str:
    """What an error of reading Parquet says of the file, in a few words.

    Examples:
        >>> damage_of(pa.ArrowInvalid("Parquet magic bytes not found in footer. Either …"))
        'it is no Parquet, or its end is missing'
        >>> damage_of(OSError("Corrupt snappy compressed data."))
        'some of its bytes are damaged'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    told = str(error).lower()
    if any(words in told for words in _NO_FOOTER):
        return "it is no Parquet, or its end is missing"
    return "some of its bytes are damaged"


@contextmanager
def reading_parquet(source: object) -> Iterator[None]:
    """Refuse in one line, with the file's name and the remedy, what Arrow cannot read.

    Raises:
        PrivotError: instead of Arrow's errors.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise PrivotError(
            f"{source} cannot be read as parquet ({damage_of(error)}): copy or write it again"
        ) from None

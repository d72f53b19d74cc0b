"""The IDX format of MNIST: a header of sizes, then bytes; plain or compressed by gzip.

Two zero bytes, a type (8: unsigned bytes), the number of axes, one big-endian 32-bit size for each
axis, then the values in row-major order.

References:
    LeCun, Cortes, Burges, *The MNIST database of handwritten digits* (1998), file formats.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from privot.errors import PrivotError

_UNSIGNED_BYTES = 8
_MOST_AXES = 4


def read_idx(path: Path) -> np.ndarray:
    """The array of unsigned bytes in a file whose name ends with `.gz` or not.

    Raises:
        PrivotError: if the file is damaged, or holds something else.
    """
    content = read_bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTES:
        raise PrivotError(f"{path} is no IDX file of unsigned bytes: fetch it again")
    axes = content[3]
    start = 4 + 4 * axes
    if not 1 <= axes <= _MOST_AXES or len(content) < start:
        raise PrivotError(f"{path} has a damaged IDX header: fetch it again")
    shape = struct.unpack(f">{axes}I", content[4:start])
    count = int(np.prod([int(size) for size in shape], dtype=object))
    if len(content) - start != count:
        raise PrivotError(
            f"{path} holds {len(content) - start} values where its header says {count}: "
            "fetch it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_bytes(path: Path) -> bytes:
    """The content of a file, uncompressed if its name ends with `.gz`.

    Raises:
        PrivotError: if what should be compressed cannot be uncompressed.
    """
    raw = path.read_bytes()
    if path.suffix != ".gz":
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise PrivotError(f"{path} is not a whole gzip file ({error}): fetch it again") from error

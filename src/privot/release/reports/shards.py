"""A release as a folder: Parquet shards, and a manifest that lists them.

The manifest is public like the release. It holds the rows of every shard: all have as many as a part has
records, but the last (`privot.release.streaming.publishing`). The folder appears by one rename, so it
is whole or not there.
"""

from __future__ import annotations

import json
from pathlib import Path

from privot.errors import PrivotError

_FORMAT = 1
_MANIFEST = "manifest.json"


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"shard-{number:06d}.parquet"


def write_manifest(folder: Path, rows: list[int]) -> None:
    """List a folder's shards, which hold so many rows."""
    fields = {
        "format": _FORMAT,
        "kind": "release",
        "rows": sum(rows),
        "shards": [{"file": shard_name(k), "rows": n} for k, n in enumerate(rows)],
    }
    (folder / _MANIFEST).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")


def is_release(folder: Path) -> bool:
    """Whether a folder has a manifest of shards."""
    return (folder / _MANIFEST).exists()


def shard_files(folder: Path) -> list[Path]:
    """The shards of a folder, in order.

    Raises:
        PrivotError: if it is not a release, or lacks a shard.
    """
    try:
        fields = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        version, names = fields["format"], [str(shard["file"]) for shard in fields["shards"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise PrivotError(
            f"release {folder} has no readable {_MANIFEST}: give what `privot privatize` wrote"
        ) from None
    if version != _FORMAT:
        raise PrivotError(f"release {folder} has format {version}, this version reads {_FORMAT}")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing or not names:
        raise PrivotError(f"release {folder} lacks {missing or 'all shards'}: copy it again")
    return [folder / name for name in names]

"""Randomizers as sealed JSON.

The seal is a hash against alteration by accident or by hand, not a signature: whoever can write the
file can seal it again. What a randomizer promises is computed from its noise whenever it is read.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from privot.errors import PrivotError

FORMAT = 1
_FIELDS = ("schema", "mechanisms", "report_columns", "delta", "joint", "guarantee")


def seal(**fields: Any) -> str:
    """Canonical JSON of a randomizer's fields, with their format and fingerprint."""
    fields = {"format": FORMAT} | fields
    return json.dumps(fields | {"fingerprint": _fingerprint(fields)}, separators=(",", ":"))


def unseal(text: str | bytes) -> dict[str, Any]:
    """The fields of a sealed JSON; refused if it is damaged, altered, or from a newer version.

    Others than a randomizer's, by which somebody could mark reports, are left out.
    """
    try:
        fields: dict[str, Any] = json.loads(text)
        fingerprint = fields.pop("fingerprint")
        version = fields["format"]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise PrivotError(
            "the randomizer is not readable: write it again with `privot calibrate`"
        ) from None
    if version != FORMAT:
        raise PrivotError(
            f"the randomizer has format {version}, this version reads {FORMAT}: upgrade privot"
        )
    if fingerprint != _fingerprint(fields):
        raise PrivotError(
            "the randomizer was altered after it was calibrated, so its guarantee is void: "
            "calibrate again with `privot calibrate`"
        )
    return {name: fields[name] for name in _FIELDS if name in fields}


def read_text(path: str | Path) -> str:
    """The text of a randomizer's file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PrivotError(f"randomizer {path} cannot be read: {error}") from None


def _fingerprint(fields: dict[str, Any]) -> str:
    # In the order given: columns are numbered by it.
    text = json.dumps(fields, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()

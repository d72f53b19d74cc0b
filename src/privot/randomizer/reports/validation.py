"""Canonical JSON of randomizers, with a fingerprint that detects changes.

The **fingerprint**, a checksum of a randomizer's JSON, detects changes by accident or by hand. It is no
signature: anyone who can write the file can compute it again. So whenever a randomizer is read, its
guarantee and the **program** by which devices draw (`privot.device` runs it, `docs/reference/wire.md`
specifies it) are computed from its mechanisms, and files with another guarantee or program are refused.

**Privacy review.** A program is a function of the schema and the mechanisms, not of records, and reports
drawn with it have the mechanisms' guarantee.
"""

import hashlib
import json
import re
import secrets
from typing import Any

from privot.core.errors import PrivotError

FORMAT = 3
_FIELDS = (
    "schema", "mechanisms", "report_columns", "delta", "joint", "candidates", "guarantee", "device",
    "campaign",
)  # fmt: skip


def seal(**fields: Any) -> str:
    """Return the canonical JSON of a randomizer's fields, with format and fingerprint."""
    fields = {"format": FORMAT} | fields
    return json.dumps(fields | {"fingerprint": _fingerprint(fields)}, separators=(",", ":"))


def unseal(text: str | bytes) -> dict[str, Any]:
    """Return the fields of the canonical JSON of a randomizer.

    Unknown fields are left out, because they could mark the reports of single devices.

    Raises:
        PrivotError: if the JSON is damaged, altered, or has another format.
    """
    try:
        fields: dict[str, Any] = json.loads(text)
        fingerprint = fields.pop("fingerprint")
        version = fields["format"]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise PrivotError(
            "the randomizer is not readable: write it again with `privot calibrate` (the encoder of a "
            "campaign with two servers cannot be used here)"
        ) from None
    if version != FORMAT:
        remedy = "calibrate it again" if version in range(FORMAT) else "upgrade privot"
        raise PrivotError(
            f"the randomizer has format {version}, this version reads {FORMAT}: {remedy}"
        )
    if fingerprint != _fingerprint(fields):
        raise PrivotError(
            "the randomizer was altered after it was calibrated, so its guarantee is void: "
            "calibrate again with `privot calibrate`"
        )
    if not re.fullmatch("[0-9a-f]{32}", str(fields.get("campaign", "0" * 32))):
        raise PrivotError(
            "the randomizer's campaign is no name of 32 hexadecimal digits: make the campaign again"
        )
    return {name: fields[name] for name in _FIELDS if name in fields}


def with_campaign(text: str) -> str:
    """Return a randomizer's JSON with a random name of its campaign, and so a unique fingerprint."""
    return seal(**unseal(text) | {"campaign": secrets.token_hex(16)})


def _fingerprint(fields: dict[str, Any]) -> str:
    # Keys are not sorted, because the order of columns is part of a randomizer.
    return hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()

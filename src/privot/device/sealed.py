"""Sealed texts: a randomizer's JSON as it was published, by the fingerprint that is its last field."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from privot.errors import PrivotError

_MARK = ',"fingerprint":"'


def read_sealed(text: str) -> tuple[bytes, dict[str, Any]]:
    """The fingerprint, 32 bytes, and the fields of a randomizer's JSON.

    Raises:
        PrivotError: if it was altered, or is no object.
    """
    body, mark, rest = text.strip().rpartition(_MARK)
    found = hashlib.sha256((body + "}").encode()).hexdigest()
    if not mark or rest != found + '"}':
        raise PrivotError("the randomizer was altered: fetch it again from who published it")
    try:
        fields = json.loads(body + "}")
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise PrivotError("the randomizer is not readable: fetch it again from who published it")
    return bytes.fromhex(found), fields

"""Integrity of randomizers: canonical JSON with a fingerprint, and signatures that devices verify.

The **fingerprint**, a checksum of a randomizer's JSON, detects changes by accident or by hand. It is no
signature: anyone who can write the file can reduce the noise and compute it again. So whenever a
randomizer is read, its guarantee and the **program** by which devices draw (`privot.device` runs it,
`docs/reference/wire.md` specifies it) are computed from its mechanisms, and files with another guarantee
or program are refused.

An **Ed25519 signature** (RFC 8032) of the file's bytes, in `randomizer.json.sig` beside it, can be made
only with the private key. A device that **pins** (contains) the public key refuses any other file before
reading it.

**Privacy review.** No record is read: a program is a function of the schema and the mechanisms, and
reports drawn with it have the mechanisms' guarantee. The holder of the key can sign a randomizer with
any ε. A page that pins the fingerprint as well is protected from stolen keys and from older signed
randomizers.
"""

import base64
import hashlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from privot.core.errors import PrivotError
from privot.core.files import cannot_write, write_file

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


def new_key(path: Path) -> None:
    """Generate a private key for signatures, and write it as `write_key` does."""
    write_key(path, Ed25519PrivateKey.generate())


def write_key(path: Path, key: Ed25519PrivateKey | EllipticCurvePrivateKey) -> None:
    """Write a private key in PEM, readable by its owner only; raise PrivotError if the file exists."""
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise PrivotError(f"key {path} is there already: use it, or name another") from None
    except OSError as error:
        raise cannot_write(path, error) from error
    with os.fdopen(handle, "wb") as file:
        file.write(text)


def read_key(path: Path) -> Ed25519PrivateKey:
    """Read an Ed25519 private key from a PEM file without a password."""
    key = read_pem(path)
    if not isinstance(key, Ed25519PrivateKey):
        raise PrivotError(f"key {path} is of another kind: give an Ed25519 key")
    return key


def read_pem(path: Path) -> PrivateKeyTypes:
    """Read a private key of any kind from a PEM file without a password."""
    try:
        return serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise PrivotError(f"key {path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise PrivotError(f"key {path} is no private key without a password, in PEM") from None


def public_key(key: Ed25519PrivateKey) -> str:
    """Return the public key of a private key: 32 bytes in base64."""
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def signature_path(path: Path) -> Path:
    """Return the path of the signature of a randomizer's file."""
    return path.with_name(path.name + ".sig")


def sign(path: Path, key: Ed25519PrivateKey) -> str:
    """Sign a file; write the signature beside it, and return it: 64 bytes in base64."""
    text = base64.b64encode(key.sign(path.read_bytes())).decode()
    write_file(signature_path(path), text + "\n")
    return text


def require_signature(path: Path, pinned: str) -> None:
    """Raise PrivotError unless a file has a valid signature for the public key `pinned`, in base64."""
    try:
        signature = base64.b64decode(signature_path(path).read_text("ascii"), validate=False)
    except (OSError, ValueError):
        raise PrivotError(f"{signature_path(path)} cannot be read: sign {path} first") from None
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(pinned, validate=True))
    except ValueError:
        raise PrivotError(f"public key {pinned!r} is not 32 bytes in base64") from None
    try:
        key.verify(signature, path.read_bytes())
    except InvalidSignature:
        raise PrivotError(
            f"{path} is not what the holder of {pinned} signed: fetch it again from them"
        ) from None

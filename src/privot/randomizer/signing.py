"""Signatures of randomizers, by which devices accept only randomizers of a trusted signer.

The fingerprint of a randomizer (`privot.randomizer.reports.validation`) protects against accidents only:
anyone who can write the file can reduce the noise and compute the fingerprint again. An **Ed25519
signature** (RFC 8032) of the file's bytes, in `randomizer.json.sig` beside it, can be made only with the
private key. A device that **pins** (contains) the public key refuses any other file before reading it.

**Privacy review.** No record is read. The holder of the key can sign a randomizer with any ε. A page
that pins the fingerprint as well is protected from stolen keys and from older signed randomizers.
"""

import base64
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from privot.core.errors import PrivotError
from privot.core.files import cannot_write, write_file


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

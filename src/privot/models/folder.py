"""The description in a model's folder, `model.json`: what kind of model it is, and what it promises.

It is the **seal** of the folder: it lists the SHA-256 of every file that belongs to the model, and ends
with that of its own text. Weights of which a few bytes were damaged would mostly still load, and be
sampled as nonsense; so all of a folder is read and compared before any of it is used.

The seal protects from damage, not from an author of models: whoever changes a model can seal it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import privot
from privot.errors import PrivotError

_DESCRIPTION = "model.json"
# All that a folder of a published model may hold; the report is a page for people, and not the model.
WEIGHTS, HISTORY = "weights.safetensors", "history.parquet"
FILES = (_DESCRIPTION, WEIGHTS, HISTORY, "report.html")


@dataclass(frozen=True)
class ModelKind:
    """A kind of model, and how its folder is to be read.

    Arguments:
        name: As the description states it: the package that knows it, and a rest if it has several.
        format: Version of the folder's format; this version of the library reads no other.
        command: What writes such a folder.
    """

    name: str
    format: int
    command: str

    def seal(self, folder: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Write the description into a folder that holds all its other files, and return it."""
        stated = {"format": self.format, "kind": self.name, "privot": privot.__version__}
        files = {file.name: _digest(file) for file in sorted(folder.iterdir())}
        text = _render(stated | dict(fields) | {"files": files})
        (folder / _DESCRIPTION).write_bytes(text)
        return dict(json.loads(text))

    def read(self, folder: Path) -> dict[str, Any]:
        """The description of a model's folder, of which no byte was changed.

        Raises:
            PrivotError: if a file is missing or damaged, of another kind or of another version.
        """
        try:
            text = (folder / _DESCRIPTION).read_bytes()
            fields = json.loads(text)
            kind, version = fields.get("kind"), fields.get("format")
        except (OSError, ValueError, AttributeError) as error:
            raise PrivotError(
                f"model {folder} cannot be read ({error}): give the folder that `{self.command}` wrote"
            ) from None
        if kind != self.name:
            raise PrivotError(
                f"model {folder} has kind {kind!r}, this reads kind {self.name!r}: give the folder "
                f"that `{self.command}` wrote"
            )
        if version != self.format:
            raise PrivotError(
                f"model {folder} has format {version}, this version of privot reads format "
                f"{self.format}: read it with the version that wrote it"
            )
        if damaged := _damaged(folder, fields, text):
            raise self.damaged(folder, damaged)
        return dict(fields)

    def damaged(self, folder: Path, reason: str) -> PrivotError:
        """What to raise of a folder that cannot be used."""
        return PrivotError(
            f"model {folder} is damaged ({reason}): copy it again, or make it again by `{self.command}`"
        )


def kind_of(folder: Path) -> str | None:
    """What a model's folder says it is; None where it says nothing, or cannot be read."""
    try:
        kind = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError):
        return None
    return str(kind)


def _damaged(folder: Path, fields: dict[str, Any], text: bytes) -> str | None:
    """What of a folder is not as it was sealed; None if all of it is."""
    # Compared as text: a byte between two values is one of the file's, too.
    if _render({name: value for name, value in fields.items() if name != "seal"}) != text:
        return f"{_DESCRIPTION} was changed"
    for name, digest in fields["files"].items():
        try:
            if _digest(folder / name) != digest:
                return f"{name} was changed"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return None


def _render(fields: dict[str, Any]) -> bytes:
    """The description's text, which ends with the SHA-256 of what stands before."""
    plain = json.dumps(fields, indent=2, ensure_ascii=False)
    seal = hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()
    text = json.dumps(fields | {"seal": seal}, indent=2, ensure_ascii=False)
    return (text + "\n").encode(errors="surrogatepass")


def _digest(file: Path) -> str:
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()

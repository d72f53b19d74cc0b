"""The description in a model's folder, `model.json`: what kind of model it is, and what it promises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import privot
from privot.errors import PrivotError

_DESCRIPTION = "model.json"


@dataclass(frozen=True)
class ModelKind:
    """A kind of model, and how its folder is to be read.

    Arguments:
        name: As the description states it.
        format: Version of the folder's format; this version of the library reads no other.
        command: What writes such a folder.
    """

    name: str
    format: int
    command: str

    def describe(self, folder: Path, fields: Mapping[str, Any]) -> None:
        """Write the description into a folder that is being made."""
        stated = {"format": self.format, "kind": self.name, "privot": privot.__version__}
        text = json.dumps(stated | dict(fields), indent=2, ensure_ascii=False)
        (folder / _DESCRIPTION).write_text(text + "\n", encoding="utf-8")

    def read(self, folder: Path) -> dict[str, Any]:
        """The description of a model's folder.

        Raises:
            PrivotError: if it is missing or damaged, of another kind or of another version.
        """
        try:
            fields = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
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
                f"model {folder} has format {version}, this version reads format {self.format}: "
                "upgrade privot"
            )
        return dict(fields)


def kind_of(folder: Path) -> str | None:
    """What a model's folder says it is; None where it says nothing, or cannot be read."""
    try:
        kind = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError):
        return None
    return str(kind)

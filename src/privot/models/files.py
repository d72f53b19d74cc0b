"""What of a model is on disk: the folder of a finished one, sealed, and the checkpoint of a run.

**The folder's** description, `model.json`, says what kind of model it is, and what it promises. It is
the **seal** of the folder: it lists the SHA-256 of every file that belongs to the model, and ends
with that of its own text. Weights of which a few bytes were damaged would mostly still load, and be
sampled as nonsense; so all of a folder is read and compared before any of it is used.

The seal protects from damage, not from an author of models: whoever changes a model can seal it again.

**A checkpoint** says where a run stands: arrays, and what must agree when it goes on; never pickle.
The file is its owner's alone: some objectives see raw records.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

import privot
from privot.errors import PrivotError
from privot.files import replacing_file

Array = NDArray[Any]
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

    Examples:
        >>> ModelKind("local", 3, "privot fit").command
        'privot fit'
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


_SECONDS = 30.0


class Checkpoint:
    """The file of a run's state.

    Arguments:
        path: Of the file; None for a run that keeps no state.
        identity: What makes it this run and no other (its settings, its data): plain values.
        resume: Whether to go on from the file, if there is one.

    Examples:
        >>> checkpoint = Checkpoint(None, {"seed": 0}, resume=False)
        >>> checkpoint.load() is None, checkpoint.of({"steps": 10}).identity
        (True, {'seed': 0, 'steps': 10})
    """

    def __init__(self, path: str | Path | None, identity: Mapping[str, Any], resume: bool) -> None:
        self.path = None if path is None else Path(path)
        self.resume = resume
        # As JSON gives it back: lists for tuples.
        self.identity = json.loads(json.dumps(identity))
        self._saved = time.perf_counter()

    def of(self, identity: Mapping[str, Any]) -> Checkpoint:
        """The same file, for a run of which this must agree, too."""
        return Checkpoint(self.path, self.identity | identity, self.resume)

    @property
    def due(self) -> bool:
        """Whether the state was last saved over half a minute ago."""
        return time.perf_counter() - self._saved > _SECONDS

    def save(self, state: Mapping[str, Array]) -> None:
        """Write the state, if there is a file to write; an existing one survives any failure."""
        if self.path is None:
            return
        arrays = {name: np.asarray(array, order="C") for name, array in state.items()}
        metadata = {"identity": json.dumps(self.identity, sort_keys=True)}
        with replacing_file(self.path, secret=True) as draft:
            draft.write_bytes(safetensors.numpy.save(arrays, metadata))
        self._saved = time.perf_counter()

    def load(self) -> dict[str, Array] | None:
        """The state to go on from; None for a run that starts.

        Raises:
            PrivotError: if the file cannot be read, or is of another run.
        """
        if self.path is None or not self.resume or not self.path.exists():
            return None
        try:
            with safetensors.safe_open(self.path, framework="np") as file:
                saved = json.loads(file.metadata()["identity"])
                state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (a handle, not a dict)
        except (OSError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
            raise PrivotError(
                f"checkpoint {self.path} cannot be read ({error}): restore it, or remove it to start "
                "again; what a ledger counted stays spent"
            ) from None
        before, now = dict(_leaves(saved)), dict(_leaves(self.identity))
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                raise PrivotError(
                    f"checkpoint {self.path} was made with {key} {before.get(key)!r}, this run has "
                    f"{now.get(key)!r}: resume with the same arguments, or start without --resume"
                )
        return state


NOWHERE = Checkpoint(None, {}, False)


def _leaves(fields: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Values that are no dicts, each with its dotted name."""
    if isinstance(fields, dict):
        for key, value in fields.items():
            yield from _leaves(value, f"{name}.{key}" if name else key)
    else:
        yield name, fields

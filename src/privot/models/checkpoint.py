"""Where a run stands, on disk: tensors, and what must agree when it goes on; never pickle.

The file is its owner's alone: some objectives see raw records.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from privot.errors import PrivotError
from privot.files import replacing_file

_SECONDS = 30.0


class Checkpoint:
    """The file of a run's state.

    Arguments:
        path: Of the file; None for a run that keeps no state.
        identity: What makes it this run and no other (its settings, its data): plain values.
        resume: Whether to go on from the file, if there is one.
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

    def save(self, state: Mapping[str, Tensor]) -> None:
        """Write the state, if there is a file to write; an existing one survives any failure."""
        if self.path is None:
            return
        tensors = {k: v.detach().cpu().contiguous() for k, v in state.items()}
        metadata = {"identity": json.dumps(self.identity, sort_keys=True)}
        with replacing_file(self.path, secret=True) as draft:
            draft.write_bytes(safetensors.torch.save(tensors, metadata))
        self._saved = time.perf_counter()

    def load(self) -> dict[str, Tensor] | None:
        """The state to go on from; None for a run that starts.

        Raises:
            PrivotError: if the file cannot be read, or is of another run.
        """
        if self.path is None or not self.resume or not self.path.exists():
            return None
        try:
            with safetensors.safe_open(self.path, framework="pt") as file:
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

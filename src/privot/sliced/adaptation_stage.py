"""Where an adaptation stands, on disk: tensors, and the settings that they were made with."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import safetensors
import safetensors.torch
from torch import nn

from privot.errors import PrivotError
from privot.files import replacing_file
from privot.sliced.classifier import AdaptationSettings


def save_stage(stage: nn.Module, settings: AdaptationSettings, path: Path) -> None:
    """Write everything a stage knows; an existing file survives any failure."""
    identity = {"settings": json.dumps(asdict(settings), sort_keys=True)}
    tensors = {k: v.detach().contiguous() for k, v in stage.state_dict().items()}
    with replacing_file(path, secret=True) as draft:
        draft.write_bytes(safetensors.torch.save(tensors, identity))


def load_stage(stage: nn.Module, settings: AdaptationSettings, path: Path) -> None:
    """Read what `save_stage` wrote.

    Raises:
        PrivotError: if the file is damaged, or was made with other settings.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            made_with = (file.metadata() or {}).get("settings", "")
        tensors = safetensors.torch.load_file(path)
        if made_with != json.dumps(asdict(settings), sort_keys=True):
            raise PrivotError("it was made with other settings")
        stage.load_state_dict(tensors)
    except (OSError, RuntimeError, PrivotError, safetensors.SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise PrivotError(
            f"checkpoint {path} cannot be read ({reason}): what the ledger counted stays spent"
        ) from None

"""Everything that a run needs to continue bit for bit, in one safetensors file; never pickle.

Weights, their running average, Adam's moments, the state of the random generator, the step, and the
history so far. Continuing from it gives the very numbers that an uninterrupted run would have given,
on the same machine. The file is its owner's alone: some objectives see raw records.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from privot.errors import PrivotError
from privot.files import replacing_file
from privot.training.history import COLUMNS, History


class TrainingState:
    """The moving parts of a run: `model`, its `average`, `optimizer`, `rng`, `step`, `history`."""

    def __init__(self, model: nn.Module, averaging: float, learning_rate: float, seed: int) -> None:
        self.model = model
        self.average = AveragedModel(model, multi_avg_fn=_running_average(averaging))
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.99))
        self.rng = torch.Generator().manual_seed(seed)
        self.step = 0
        self.seconds = 0.0
        self.history = History()

    def save(self, path: Path, settings: dict[str, Any]) -> None:
        """Write a checkpoint; an existing one survives any failure."""
        tensors: dict[str, Tensor] = {"rng": self.rng.get_state()}
        tensors |= {f"model.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"average.{k}": v for k, v in self.average.state_dict().items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{k}": v for k, v in moments.items()}
        tensors["history"] = torch.tensor(self.history.rows, dtype=torch.float64)
        metadata = {
            "settings": json.dumps(settings, sort_keys=True),
            "step": str(self.step),
            "seconds": repr(self.seconds),
        }
        contiguous = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
        with replacing_file(path, secret=True) as draft:
            draft.write_bytes(safetensors.torch.save(contiguous, metadata))

    def load(self, path: Path, settings: dict[str, Any]) -> None:
        """Continue from a checkpoint of the same run.

        Raises:
            PrivotError: if it cannot be read, or belongs to other settings or another release.
        """
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (a handle, not a dict)
            saved = json.loads(metadata["settings"])
        except (OSError, KeyError, ValueError, safetensors.SafetensorError) as error:
            raise PrivotError(
                f"checkpoint {path} cannot be read ({error}): remove it to start again"
            ) from None
        for key in sorted(settings.keys() | saved.keys()):
            if settings.get(key) != saved.get(key):
                raise PrivotError(
                    f"checkpoint {path} was made with {key} {saved.get(key)!r}, "
                    f"this run has {settings.get(key)!r}: "
                    "resume with the same arguments, or start without --resume"
                )
        self.model.load_state_dict(_part(tensors, "model."))
        self.average.load_state_dict(_part(tensors, "average."))
        optimizer = self.optimizer.state_dict()
        for key, value in _part(tensors, "optimizer.").items():
            index, moment = key.split(".")
            optimizer["state"].setdefault(int(index), {})[moment] = value
        self.optimizer.load_state_dict(optimizer)
        self.rng.set_state(tensors["rng"])
        rows = tensors["history"].reshape(-1, len(COLUMNS)).tolist()
        self.history = History([tuple(row) for row in rows])
        self.step, self.seconds = int(metadata["step"]), float(metadata["seconds"])


def _running_average(decay: float) -> Callable[[Any, Any, Any], None]:
    """An exponential moving average that forgets its first steps as fast as they are few.

    At step t its decay is min(`decay`, (1+t)/(10+t)): otherwise the initial weights would weigh on
    every run of less than a few times 1/(1−`decay`) steps.
    """

    def update(averages: Any, weights: Any, num_averaged: Any) -> None:
        t = float(num_averaged)
        get_ema_multi_avg_fn(min(decay, (1 + t) / (10 + t)))(averages, weights, num_averaged)

    return update


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

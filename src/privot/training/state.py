"""Everything that a run needs to continue bit for bit, as tensors.

Weights, their running average, Adam's moments, the state of the random generator, the step, and the
history so far. Continuing from it gives the very numbers that an uninterrupted run would have given,
on the same machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from privot.models.history import COLUMNS, History


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

    def tensors(self) -> dict[str, Tensor]:
        """All of it, by name."""
        tensors = {"rng": self.rng.get_state(), "step": torch.tensor(self.step)}
        tensors |= {f"model.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"average.{k}": v for k, v in self.average.state_dict().items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{k}": v for k, v in moments.items()}
        tensors["history"] = torch.tensor(self.history.rows, dtype=torch.float64)
        tensors["seconds"] = torch.tensor(self.seconds, dtype=torch.float64)
        return tensors

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Continue from the tensors of a run with the same model and settings."""
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
        self.step, self.seconds = int(tensors["step"]), float(tensors["seconds"])


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

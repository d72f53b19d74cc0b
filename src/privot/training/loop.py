r"""The training loop: draw, differentiate, step, average; record; stop cleanly; resume bit for bit.

Adam with a short linear warm-up and cosine decay to zero; the final weights are an exponential moving
average over the steps, which removes most of the noise of the last batches.

**A time limit** does not cut a run short: the time of a step is estimated from the first ones, as many
are planned as will fit, and the learning rate falls to zero over these. Their number depends on the
machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from privot.core.errors import (
    MOST_STEPS,
    PrivotError,
    require_count,
    require_learning_rate,
    require_seed,
)
from privot.core.processes import deferred_interruption
from privot.models import COLUMNS, NOWHERE, Checkpoint, History
from privot.training.parallel import ALONE, Group
from privot.training.stopping import Interrupted, Progress, StepLimit

# Loss and marginal error of one step, given the run's random generator.
Objective = Callable[[torch.Generator], tuple[Tensor, float]]

_WARM_UP_STEPS = 50
_HISTORY_ROWS = 400


@dataclass(frozen=True)
class TrainingSettings:
    """Settings that determine the numbers of a run, apart from the objective.

    Arguments:
        steps: Number of optimizer steps.
        learning_rate: Peak learning rate of Adam.
        averaging: Decay of the moving average of the weights, a step.
        seed: Seed of batches, latents and simulated noise.
        minutes: Time limit in minutes; fewer steps are taken where these would take longer.
    """

    steps: int
    learning_rate: float = 1e-3
    averaging: float = 0.999
    seed: int = 0
    minutes: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", require_count("steps", self.steps, MOST_STEPS))
        require_learning_rate(self.learning_rate)
        object.__setattr__(self, "seed", require_seed(self.seed))
        if not 0 <= self.averaging < 1:
            raise PrivotError(f"averaging {self.averaging} is not in [0, 1): try 0.999")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        warm_up = min(1.0, (step + 1) / _WARM_UP_STEPS)
        return self.learning_rate * warm_up * 0.5 * (1 + math.cos(math.pi * step / self.steps))

    def at_row(self, step: int) -> bool:
        """Return True if the history has a row after a step, counted from 1."""
        return step % max(1, self.steps // _HISTORY_ROWS) == 0 or step == self.steps


def train(
    model: nn.Module,
    objective: Objective,
    settings: TrainingSettings,
    *,
    checkpoint: Checkpoint = NOWHERE,
    progress: Progress | None = None,
    seek: Callable[[int], None] | None = None,
    group: Group = ALONE,
) -> History:
    """Train `model` in place on `objective`; its weights end as their moving average.

    That is so after an interruption, too: what was learned until then can be used.

    Arguments:
        model: Module with the weights that `objective` depends on.
        objective: Loss and marginal error of one step, drawn with the generator it is given.
        settings: Steps, learning rate, averaging, seed.
        checkpoint: File of the state, saved every half minute and on interruption; its identity is what
            must agree when resuming besides `settings` (the data, the architecture).
        progress: Callback after every step.
        seek: Callback with the step that a run starts from, before it does.
        group: The processes that train together; `objective` gives the loss of all of them, and
            gradients of this one's rows.

    Raises:
        Interrupted: on SIGINT or SIGTERM, between two steps.
        PrivotError: if the loss is no longer finite.
    """
    state = TrainingState(model, settings.averaging, settings.learning_rate, settings.seed)
    checkpoint = checkpoint.of(asdict(settings))
    if (saved := checkpoint.load()) is not None:
        state.load({name: torch.from_numpy(array) for name, array in saved.items()})
    if seek is not None:
        seek(state.step)
    started, recent = time.perf_counter() - state.seconds, _Recent()
    limit = None if settings.minutes is None else StepLimit(60 * settings.minutes, state.step)
    with deferred_interruption() as interruption:
        while state.step < (settings := state.plan(settings, limit)).steps:
            loss, marginal_error = _step(model, objective, settings, state, group)
            recent.add(loss, marginal_error)
            state.seconds = time.perf_counter() - started
            if progress is not None and group.rank == 0:
                progress(state.step, settings.steps, recent.shown)
            at_row = settings.at_row(state.step)
            stop = (at_row or checkpoint.path is None) and group.any(interruption.requested)
            if at_row or stop:
                rate = settings.rate(state.step - 1)
                state.history.rows.append((state.step, *recent.means(rate), state.seconds))
                recent = _Recent(recent.shown)
            # Checkpoints fall on rows of the history, so that its means survive resuming, too.
            if at_row and (checkpoint.due or stop) and group.rank == 0:
                checkpoint.save({name: x.cpu().numpy() for name, x in state.tensors().items()})
            if stop:
                break
    model.load_state_dict(state.average.module.state_dict())
    if state.step < settings.steps:
        raise Interrupted(f"stopped after step {state.step:,} of {settings.steps:,}", state.history)
    return state.history


def _step(
    model: nn.Module,
    objective: Objective,
    settings: TrainingSettings,
    state: TrainingState,
    group: Group,
) -> tuple[float, float]:
    """Take one step of optimizer and average; return its loss and marginal error."""
    for weights in state.optimizer.param_groups:
        weights["lr"] = settings.rate(state.step)
    loss, marginal_error = objective(state.rng)
    state.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    group.add_gradients(model)
    state.optimizer.step()
    state.average.update_parameters(model)
    state.step += 1
    return float(loss.detach()), marginal_error


class _Recent:
    """Means since the history's last row."""

    def __init__(self, shown: float = math.nan) -> None:
        self.loss = self.marginal_error = 0.0
        self.count = 0
        self.shown = shown

    def add(self, loss: float, marginal_error: float) -> None:
        if not math.isfinite(loss):
            raise PrivotError(
                f"the loss became {loss}: lower learning_rate, or report this as a bug"
            )
        self.loss += loss
        self.marginal_error += marginal_error
        self.count += 1
        self.shown = self.loss / self.count

    def means(self, rate: float) -> tuple[float, float, float]:
        return self.loss / self.count, rate, self.marginal_error / self.count


class TrainingState:
    """State of a run: all that it needs to continue bit for bit on the same machine."""

    def __init__(self, model: nn.Module, averaging: float, learning_rate: float, seed: int) -> None:
        self.model = model
        self.average = AveragedModel(model, multi_avg_fn=_running_average(averaging))
        self.optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.99))
        self.rng = torch.Generator().manual_seed(seed)
        self.step = 0
        self.fewer_steps = 0  # than the settings', by a time limit; else 0
        self.seconds = 0.0
        self.history = History()

    def plan(self, settings: TrainingSettings, limit: StepLimit | None) -> TrainingSettings:
        """Return settings with as many steps as a limit allows, once that can be estimated."""
        if limit is not None and not self.fewer_steps:
            self.fewer_steps = min(limit.steps(self.step, self.seconds), settings.steps)
        return replace(settings, steps=self.fewer_steps or settings.steps)

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of the state, by name."""
        tensors = {"rng": self.rng.get_state(), "step": torch.tensor(self.step)}
        tensors["fewer_steps"] = torch.tensor(self.fewer_steps)
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
        self.fewer_steps = int(tensors["fewer_steps"])


def _running_average(decay: float) -> Callable[[Any, Any, Any], None]:
    """Return an exponential moving average that forgets its first steps while they are few.

    At step t its decay is min(`decay`, (1+t)/(10+t)): otherwise the initial weights would weigh on
    every run of less than a few times 1/(1−`decay`) steps.
    """

    def update(averages: Any, weights: Any, num_averaged: Any) -> None:
        t = float(num_averaged)
        get_ema_multi_avg_fn(min(decay, (1 + t) / (10 + t)))(averages, weights, num_averaged)

    return update


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

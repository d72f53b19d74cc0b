"""Training: progress callbacks, interruptions and time limits of fits, whatever is learned from.

Signals are deferred to the end of a step (`privot.core.processes`). `StepLimit` estimates the number of
training steps in a time limit, and `FitMonitor` stops an iterative fit at a limit or an interruption.
This module needs no PyTorch; `privot.training.loop` and `privot.training.generators` do.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from privot.core.errors import load_object
from privot.core.processes import Interruption, deferred_interruption

if TYPE_CHECKING:
    from privot.models import History

Architecture = Literal["mlp", "dcgan", "dcgan_unnormalized"]  # of `privot.training.generators`
Result = TypeVar("Result")

# The time of a step is estimated after 20 steps, without the first five, which may compile.
_STEPS_BEFORE_ESTIMATE, _FIRST_STEPS = 20, 5


class Progress(Protocol):
    """Callback after every step of a fit."""

    def __call__(self, step: int, steps: int, loss: float) -> None:
        """Handle the end of `step` of `steps`; `loss` is the running mean of the loss."""


class Interrupted(KeyboardInterrupt):
    """Exception of a fit that a signal stopped; its state was saved if it has a checkpoint.

    Attributes:
        history: History of the run until the signal.
        model: Model learned until the signal, if the fit can build one.
    """

    def __init__(self, message: str, history: "History | None" = None, model: Any = None) -> None:
        super().__init__(message)
        # Imported on use, because settings import this module without the requirements of models.
        self.history: History = history or load_object("privot.models:History", "history")()
        self.model = model


@contextmanager
def attach_model(build: "Callable[[History], Any]") -> Iterator[None]:
    """Attach the model `build(history)` to an `Interrupted` that is raised in the block."""
    try:
        yield
    except Interrupted as interruption:
        interruption.model = build(interruption.history)
        raise


class StepLimit:
    """Estimate of the number of steps that fit into a time limit.

    Arguments:
        seconds: Time limit of the whole run.
        step: Number of steps done when this run begins.
    """

    def __init__(self, seconds: float, step: int) -> None:
        self._limit, self._start, self._first_seconds = seconds, step, 0.0

    def steps(self, step: int, seconds: float) -> int:
        """Return the number of steps of the whole run, or 0 until it can be estimated; call every step.

        Arguments:
            step: Number of steps done, including those before this run began.
            seconds: Time of the whole run so far, in seconds.

        Examples:
            >>> limit = StepLimit(seconds=10.0, step=0)
            >>> [limit.steps(step, 1 + 0.1 * step) for step in range(1, 21)][-2:]  # 1 s to begin
            [0, 90]
        """
        done = step - self._start
        if done <= _FIRST_STEPS:
            self._first_seconds = seconds
        if done < _STEPS_BEFORE_ESTIMATE and seconds < self._limit:
            return 0
        step_seconds = (seconds - self._first_seconds) / max(1, done - _FIRST_STEPS)
        left = (self._limit - seconds) / step_seconds if step_seconds > 0 else 0.0
        return step + max(0, round(left))


class FitMonitor:
    """Progress, time limit and interruptions of an iterative fit.

    Arguments:
        minutes: Time limit in minutes from now; none by default.
        progress: Callback after every step.

    Attributes:
        ended: Reason why the fit ended early; empty if it did not.

    Examples:
        >>> monitor = FitMonitor(minutes=0.0)
        >>> monitor.over(), monitor.ended
        (True, 'stopped after 0 minutes')
    """

    def __init__(self, minutes: float | None = None, progress: Progress | None = None) -> None:
        self._start, self._minutes, self._progress = time.perf_counter(), minutes, progress
        self._interruption, self._steps, self._loss = Interruption(), 0, 0.0
        self.ended = ""

    @property
    def seconds(self) -> float:
        """Seconds since this monitor was created."""
        return time.perf_counter() - self._start

    def over(self) -> bool:
        """Return whether the fit should stop with its current result."""
        if self._interruption.requested:
            self.ended = "stopped by an interruption"
        elif self._minutes is not None and self.seconds > 60 * self._minutes:
            self.ended = f"stopped after {self._minutes:g} minutes"
        return bool(self.ended)

    def step(self, ahead: int, loss: float | None = None) -> None:
        """Report the end of a step, with at most `ahead` steps to go, and the loss if it has changed."""
        self._steps, self._loss = self._steps + 1, self._loss if loss is None else loss
        if self._progress is not None:
            self._progress(self._steps, self._steps + ahead, self._loss)

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """Let signals that arrive in the block end the fit (`over`) instead of the process."""
        with deferred_interruption() as self._interruption:
            yield

    def facts(self) -> dict[str, float | str]:
        """Return the seconds, and the reason for an early end if any, for a model's `made_with`."""
        stopped = {"stopped": self.ended} if self.ended else {}
        return {"seconds": self.seconds, **stopped}

    def finish(self, model: Result) -> Result:
        """Return the model of the fit.

        Raises:
            Interrupted: with the model as attribute, if a signal ended the fit early.
        """
        if self._interruption.requested:
            raise Interrupted(self.ended or "stopped by an interruption", model=model)
        return model

"""Progress callbacks, interruptions and time limits of fits.

Interruptions are deferred to the end of a step (`privot.core.processes`), a run of steps is cut to a
time limit (`StepLimit`), and a fit that improves step by step stops at one (`FitMonitor`). Nothing here
needs PyTorch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from privot.core.errors import load_object
from privot.core.processes import Interruption, deferred_interruption

if TYPE_CHECKING:
    from privot.models import History

# Networks that generators can be.
Architecture = Literal["mlp", "dcgan", "dcgan_unnormalized"]


Kind = TypeVar("Kind")

# Steps after which the time of one is estimated; the first ones, which compile, do not count.
_TIMED, _UNTIMED = 20, 5


class Progress(Protocol):
    """Callback after every step; the command line shows a bar."""

    def __call__(self, step: int, steps: int, loss: float) -> None:
        """Report that `step` of `steps` is done; `loss` is its running mean."""


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal, after its state was saved if there is a checkpoint.

    Attributes:
        history: History of the run until then.
        model: Model that was learned until then, if a fit can make one.

    Examples:
        >>> Interrupted("stopped after 0 steps").history.done()
        {'steps': 0, 'seconds': 0.0}
    """

    def __init__(self, message: str, history: History | None = None, model: Any = None) -> None:
        super().__init__(message)
        # Imported when it is needed: settings are read without what models need.
        self.history: History = history or load_object("privot.models:History", "history")()
        self.model = model


@contextmanager
def learning(model: Callable[[History], Any]) -> Iterator[None]:
    """Attach the model that was learned until then to an interruption within the block."""
    try:
        yield
    except Interrupted as interruption:
        interruption.model = model(interruption.history)
        raise


class StepLimit:
    """Number of steps that fit into a time limit, estimated from the first steps.

    Arguments:
        seconds: Time limit of the whole run.
        step: Step that this run begins at.
    """

    def __init__(self, seconds: float, step: int) -> None:
        self._limit, self._first, self._untimed = seconds, step, 0.0

    def steps(self, step: int, seconds: float) -> int:
        """Return the steps of the whole run once they can be estimated, or its time is up; until then 0.

        Examples:
            >>> limit = StepLimit(seconds=10.0, step=0)
            >>> [limit.steps(step, 1 + 0.1 * step) for step in range(1, 21)][-2:]  # 1 s to begin
            [0, 90]
        """
        done = step - self._first
        if done <= _UNTIMED:
            self._untimed = seconds
        if done < _TIMED and seconds < self._limit:
            return 0
        each = (seconds - self._untimed) / max(1, done - _UNTIMED)
        more = (self._limit - seconds) / each if each > 0 else 0.0
        return step + max(0, round(more))


class FitMonitor:
    """Progress, time limit and interruptions of a fit that improves step by step.

    Arguments:
        minutes: Time limit, from now on; none by default.
        progress: Callback after every step.

    Attributes:
        ended: Reason of an early end, in words; empty without one.

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
        """Seconds since the start."""
        return time.perf_counter() - self._start

    def over(self) -> bool:
        """Return True if the fit should stop here, where it has a result."""
        if self._interruption.requested:
            self.ended = "stopped by an interruption"
        elif self._minutes is not None and self.seconds > 60 * self._minutes:
            self.ended = f"stopped after {self._minutes:g} minutes"
        return bool(self.ended)

    def step(self, ahead: int, loss: float | None = None) -> None:
        """Report a step done, at most `ahead` more, and the loss if it is new."""
        self._steps, self._loss = self._steps + 1, self._loss if loss is None else loss
        if self._progress is not None:
            self._progress(self._steps, self._steps + ahead, self._loss)

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """Have `over` report interruptions within the block, instead of ending the process."""
        with deferred_interruption() as self._interruption:
            yield

    def facts(self) -> dict[str, float | str]:
        """Return the seconds, and the reason of an early end, for a model's `made_with`."""
        stopped = {"stopped": self.ended} if self.ended else {}
        return {"seconds": self.seconds, **stopped}

    def finish(self, model: Kind) -> Kind:
        """Return the fit's model.

        Raises:
            Interrupted: with the model, if an interruption ended the fit.
        """
        if self._interruption.requested:
            raise Interrupted(self.ended or "stopped by an interruption", model=model)
        return model

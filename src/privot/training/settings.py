"""When a fit ends before it is done: somebody interrupts it, or its time is up."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal, Protocol, TypeVar

from privot.core.errors import PrivotError
from privot.models import History

# Names of the networks that generators can be: plain text, which needs no PyTorch.


Architecture = Literal["mlp", "dcgan", "dcgan_unnormalized"]


# Which of several processes this one is, where torchrun started them, and how many threads it has.


def started_by_torchrun() -> bool:
    """Whether this process is one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return int(os.environ.get("RANK", "0")) == 0


def num_threads() -> int:
    """Threads for compiled loops: `OMP_NUM_THREADS` where it is set, or the processor's cores.

    torchrun sets it to 1.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given):
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


Kind = TypeVar("Kind")

# Steps until the time of one is known; the first ones compile and fill caches, and do not count.
_TIMED, _UNTIMED = 20, 5


class Progress(Protocol):
    """Told after every step; the command line shows a bar."""

    def __call__(self, step: int, steps: int, loss: float) -> None:
        """`step` of `steps` is done; `loss` is its running mean."""


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal, after its state was saved if there is a checkpoint.

    Attributes:
        history: What was written down until then.
        model: What was learned until then, where a fit can make something of it.

    Examples:
        >>> Interrupted("stopped after 0 steps").history.done()
        {'steps': 0, 'seconds': 0.0}
    """

    def __init__(self, message: str, history: History | None = None, model: Any = None) -> None:
        super().__init__(message)
        self.history = history or History()
        self.model = model


@contextmanager
def learning(model: Callable[[History], Any]) -> Iterator[None]:
    """An interruption within carries the model of what was learned until then."""
    try:
        yield
    except Interrupted as interruption:
        interruption.model = model(interruption.history)
        raise


class Interruption:
    """Whether somebody asked to stop."""

    requested = False


@contextmanager
def deferred_interruption() -> Iterator[Interruption]:
    """Note SIGINT and SIGTERM instead of raising; a second one is not held back.

    A half-made step could not be resumed.

    Examples:
        >>> with deferred_interruption() as interruption:
        ...     interruption.requested
        False
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # signals only ever reach the main thread
        return
    previous = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        interruption.requested = True
        signal.signal(number, previous[signal.Signals(number)])

    for number in previous:
        signal.signal(number, note)
    try:
        yield interruption
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class StepLimit:
    """How many steps a time holds, once some of them have told how long one takes.

    Arguments:
        seconds: Of the whole run.
        step: The step that this run begins at.
    """

    def __init__(self, seconds: float, step: int) -> None:
        self._limit, self._first, self._untimed = seconds, step, 0.0

    def steps(self, step: int, seconds: float) -> int:
        """All steps of the run, once they can be told; sooner if its time is up. Until then, 0.

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


class Patience:
    """Whether a fit that goes from good to better should rest content with what it has.

    Arguments:
        minutes: After which it should; never, by default.

    Attributes:
        ended: Why it was told to, in words; empty where it was not.

    Examples:
        >>> patience = Patience(minutes=0.0)
        >>> patience.over(), patience.facts()
        (True, {'stopped': 'stopped after 0 minutes'})
    """

    def __init__(self, minutes: float | None = None) -> None:
        self._until = math.inf if minutes is None else time.perf_counter() + 60 * minutes
        self._minutes, self._interruption = minutes, Interruption()
        self.ended = ""

    def over(self) -> bool:
        """Whether to stop here: for a loop to ask wherever it has something to show."""
        if self._interruption.requested:
            self.ended = "stopped by an interruption"
        elif time.perf_counter() > self._until:
            self.ended = f"stopped after {self._minutes:g} minutes"
        return bool(self.ended)

    @contextmanager
    def deferring_interruptions(self) -> Iterator[None]:
        """Within, `over` reports interruptions, instead of their ending the process."""
        with deferred_interruption() as self._interruption:
            yield

    def facts(self) -> dict[str, str]:
        """For a model's facts: why its fit ended early, if it did."""
        return {"stopped": self.ended} if self.ended else {}

    def rest(self, model: Kind) -> Kind:
        """The model of a fit that asked.

        Raises:
            Interrupted: with the model, if an interruption ended the fit.
        """
        if self._interruption.requested:
            raise Interrupted(self.ended or "stopped by an interruption", model=model)
        return model


def require_minutes(minutes: float | None) -> float | None:
    """Refuse what is no time to take."""
    if minutes is not None and not 0 < minutes < math.inf:
        raise PrivotError(f"minutes {minutes} is no time to take: give a number above 0")
    return minutes

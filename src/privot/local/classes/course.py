"""Where a fit of latent classes is: told to whoever watches, and ended early where time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from privot.training import Patience, Progress
from privot.training.processes import num_threads

Result = TypeVar("Result")


class Course:
    """Settings that were tried and fits that were averaged, as steps.

    Arguments:
        patience: Asked between passes whether to rest content with what there is.
        progress: Told after every setting and every fit; the loss is minus the best gain over
            independence, in nats a held-out report.
    """

    def __init__(self, patience: Patience | None = None, progress: Progress | None = None) -> None:
        self._patience, self._progress = patience or Patience(), progress
        self._done, self._loss = 0, 0.0

    def over(self) -> bool:
        """Whether to go on with what was tried until now."""
        return self._patience.over()

    def tried(self, gain: float, ahead: int) -> None:
        """A setting was tried, the best has this gain, and at most so many steps are ahead."""
        self._loss = -gain
        self.fitted(ahead)

    def fitted(self, ahead: int) -> None:
        """A step was made, and so many are ahead."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._done + ahead, self._loss)


def at_once(
    function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]]
) -> Iterator[Result]:
    """A function's results in order, in as many threads as this process has: kernels need no lock."""
    calls = list(arguments)
    workers = min(num_threads(), len(calls))
    if workers < 2:
        yield from (function(*each) for each in calls)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda each: function(*each), calls)

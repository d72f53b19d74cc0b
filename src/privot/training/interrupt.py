"""Ctrl-C between two steps, never inside one: a half-made step could not be resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Whether somebody asked to stop."""

    requested = False


@contextmanager
def deferred_interruption() -> Iterator[Interruption]:
    """Note SIGINT and SIGTERM instead of raising; a second one is not held back."""
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

"""Working ahead on threads, a few items only, with results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    action: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Results in the order of the items, as many of which are worked at ahead as there are workers.

    Examples:
        >>> list(in_order(abs, [-1, 2, -3], workers=2))
        [1, 2, 3]
    """
    pool = ThreadPoolExecutor(workers)
    ahead: deque[Future[Result]] = deque()
    try:
        for item in items:
            ahead.append(pool.submit(action, item))
            if len(ahead) > workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)

"""Loops compiled by Numba when they are first called, and cached on disk between processes.

Numba is imported by the first call of a loop, since its import takes a third of a second. That call also
replaces the `Loop` in its module by Numba's function, so that loops call each other directly. Compiled
code runs without the interpreter's lock, so threads run in parallel.
"""

import importlib
from collections.abc import Callable, Iterator
from functools import partial, update_wrapper
from threading import RLock
from types import CodeType
from typing import Any

from privot.core.errors import PrivotError

# Additions may be reordered, so that sums use vector registers; NaN and infinity keep their meaning.
_REORDERING = {"reassoc", "contract", "nsz", "arcp"}
_lock = RLock()


class Loop:
    """Function that Numba compiles at its first call, for the types of that call's arguments.

    Arguments:
        function: Function in Numba's subset of Python; it may call loops of any module by name.
        options: Options of `numba.njit`.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options = function, options
        self._dispatcher: Any = None
        update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        return (self._dispatcher or self.dispatcher())(*args)

    def dispatcher(self) -> Any:
        """Return the compiled function, which takes the place of this loop in its module.

        Raises:
            PrivotError: where Numba is not installed.
        """
        with _lock:
            if self._dispatcher is None:
                try:
                    numba = importlib.import_module("numba")
                except ImportError:
                    raise PrivotError(
                        f"{self.function.__name__} needs numba, which is not installed: "
                        "pip install 'privot[learn]'"
                    ) from None
                module = self.function.__globals__
                for name in _global_names(self.function.__code__):
                    if isinstance(module.get(name), Loop):
                        module[name] = module[name].dispatcher()
                self._dispatcher = numba.njit(**self.options)(self.function)
                if module.get(self.function.__name__) is self:
                    module[self.function.__name__] = self._dispatcher
            return self._dispatcher


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function and its inner functions use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def compiled(
    function: Callable[..., Any], *, reordering: bool = False, python_entry: bool = True
) -> Callable[..., Any]:
    """Return `function` as a loop that is compiled at its first call.

    Arguments:
        function: Function in Numba's subset of Python.
        reordering: Whether to add in a faster order, which is the same in every run on a machine.
        python_entry: Whether Python code calls the loop; False if only other loops do.

    >>> @compiled
    ... def total(x):
    ...     result = 0.0
    ...     for number in x:
    ...         result += number
    ...     return result
    >>> total.options["nogil"]
    True
    """
    # Division by zero gives infinity, as in NumPy: a loop that could raise would not be vectorized.
    # Checks for it, and wrappers for callers that do not exist, would double the time of compilation.
    options = {
        "cache": True,
        "nogil": True,
        "fastmath": _REORDERING if reordering else False,
        "error_model": "numpy",
        "no_cfunc_wrapper": True,
        "no_cpython_wrapper": not python_entry,
    }
    return Loop(function, options)


# A `part` is called by other loops only.
compiled_part = partial(compiled, python_entry=False)
compiled_reordering = partial(compiled, reordering=True)
compiled_reordering_part = partial(compiled, reordering=True, python_entry=False)

"""The one error that users meet, and limits of what they may ask.

Every refusal names the argument (or column), the value, and the remedy, in one line.
The command line prints it on standard error and exits with code 2; nothing half-written stays.

Limits are what is refused before memory or hours are spent on it, and what no computation can use: far
beyond what anybody has needed, and far below what ends in a killed process, so that a typo of three
zeros is told in one line. An argument has the same limit wherever it is taken.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, SupportsIndex

# Codes of one column (bins, spikes, categories): a joint report's cells are as many at least.
MOST_CODES = 2**16
# Numbers in one image; the noise alone takes dozens of bytes for each.
MOST_PIXELS = 2**24
MOST_COORDINATES = 2**16
MOST_PEOPLE = 2 * 10**11
MOST_ROWS = 10**10
# Of slices: beyond these nothing was checked.
MOST_DIMENSIONS = 10**7
MOST_PROJECTIONS = 10**6
MOST_STEPS = 10**9
MOST_BATCH = 10**7
MOST_LEARNING_RATE = 1.0
# Smaller δ are no smaller promise, and floats lose their digits.
SMALLEST_DELTA = 1e-300
# What all generators of random numbers take, with room for seeds derived from it.
MOST_SEED = 2**63 - 1

_RELEASE = ("numpy", "scipy", "pyarrow", "pydantic", "cryptography", "narwhals", "typer", "rich")
_LEARN = ("numba", "safetensors", "matplotlib", "jinja2", "threadpoolctl")
_SERVE = ("starlette", "uvicorn", "uvloop", "httptools", "fsspec", "psycopg")
_EXTRAS = {
    **dict.fromkeys(_RELEASE, "release"),
    **dict.fromkeys(_LEARN, "learn"),
    **dict.fromkeys(_SERVE, "serve"),
    "torch": "networks",
    "ray": "ray",
}


class PrivotError(ValueError):
    """Input that cannot be used, or a promise that cannot be made.

    Examples:
        >>> issubclass(PrivotError, ValueError)
        True
    """


def extra_of(error: ModuleNotFoundError) -> tuple[str, str] | None:
    """What is not installed, and the extra that brings it; None if none of ours does.

    >>> extra_of(ModuleNotFoundError(name="pyarrow.compute"))
    ('pyarrow', 'release')
    """
    package = (error.name or "").partition(".")[0]
    return (package, _EXTRAS[package]) if package in _EXTRAS else None


@contextmanager
def naming_extra(purpose: str, extra: str | None = None) -> Iterator[None]:
    """Around imports: what is not installed is named in one line, with the extra that brings it.

    Arguments:
        purpose: What the imports are for: a package of ours, or a kind of model.
        extra: What to install; by default the smallest extra with the missing package.

    Raises:
        ModuleNotFoundError: naming purpose, missing package and extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (found := extra_of(error)) is None:
            raise
        missing, smallest = found
        raise ModuleNotFoundError(
            f"{purpose} needs {missing}: pip install 'privot[{extra or smallest}]'", name=missing
        ) from None


def load_object(place: str, purpose: str) -> Any:
    """What stands at "package.module:name", imported now.

    For parts that need a package which most of an install does without.

    Raises:
        ModuleNotFoundError: naming the purpose, the missing package and the extra that brings it.

    Examples:
        >>> load_object("math:sqrt", "a square root")(4.0)
        2.0
    """
    module, _, name = place.partition(":")
    with naming_extra(purpose):
        return getattr(importlib.import_module(module), name)


def lazy_names(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__` that imports the module of a name when the name is first used.

    Arguments:
        package: Name of the package.
        places: The module of each name.

    Raises:
        AttributeError: (the function) for a name that the package does not have.
        ModuleNotFoundError: (the function) naming the extra that a name needs.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return load_object(f"{places[name]}:{name}", f"{package}.{name}")

    return find


def printable(text: str) -> str:
    r"""Words of others on a line, where they end no line and steer no terminal.

    >>> printable("a\x1b[2J\n.csv")
    'a\\x1b[2J\\n.csv'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        raise PrivotError(f"{name} is {value!r}: choose one of {', '.join(choices)}")


def require_count(name: str, value: SupportsIndex, most: int, why: str = "", least: int = 1) -> int:
    """A whole number between `least` and `most`, whatever library's: 2.0 and `True` are none.

    >>> import numpy as np
    >>> require_count("draws", np.int64(3), 10)
    3
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if isinstance(value, bool) or not least <= count <= most:
        reason = f" ({why})" if why else ""
        raise PrivotError(
            f"{name} {value!r} cannot be: give a whole number from {least:,} to {most:,}{reason}"
        )
    return count


def require_seed(seed: SupportsIndex) -> int:
    """A seed that every generator of random numbers takes."""
    return require_count("seed", seed, MOST_SEED, least=0)


def require_learning_rate(rate: float) -> None:
    """Refuse a rate by which nothing is learned."""
    if not (math.isfinite(rate) and 0 < rate <= MOST_LEARNING_RATE):
        raise PrivotError(
            f"learning_rate {rate!r} learns nothing: give a number above 0, at most "
            f"{MOST_LEARNING_RATE:g}, such as 0.001"
        )

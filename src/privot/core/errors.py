"""The library's exception, the limits and checks of arguments that raise it, and optional imports.

Every message names the argument (or column), the value, and the remedy, in one line. The command line
prints it on standard error and exits with code 2; no partial output remains.

Values above the limits are refused before memory or hours are spent on them. The limits are far above
practical values and far below those that exhaust a machine, so they find typos such as three extra
zeros. An argument has the same limit in every function and command.
"""

import importlib
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, SupportsIndex

# Codes (bins, spikes, categories) of one column; a joint report has at least as many cells.
MOST_CODES = 2**16
# Numbers in one image; the noise alone takes dozens of bytes for each number.
MOST_PIXELS = 2**24
MOST_COORDINATES = 2**16  # of one vector
MOST_PEOPLE = 2 * 10**11  # more than ever lived
MOST_ROWS = 10**10
# Limits of the accounting of slices, which was tested up to these values.
MOST_DIMENSIONS = 10**7
MOST_PROJECTIONS = 10**6
MOST_STEPS = 10**9
MOST_BATCH = 10**7
MOST_LEARNING_RATE = 1.0
# A smaller δ adds no protection, and floats lose digits near 1e-308.
SMALLEST_DELTA = 1e-300
# All random number generators accept this seed and the seeds derived from it.
MOST_SEED = 2**63 - 1

_RELEASE = ("numpy", "scipy", "pyarrow", "pydantic", "cryptography", "narwhals", "typer", "rich")
_LEARN = ("numba", "safetensors", "matplotlib", "jinja2", "threadpoolctl")
_SERVE = ("starlette", "uvicorn", "uvloop", "httptools", "fsspec", "psycopg")
_EXTRAS = {
    **dict.fromkeys(_RELEASE, "release"),
    **dict.fromkeys(_LEARN, "learn"),
    **dict.fromkeys(_SERVE, "serve"),
    "torch": "networks",
}


class PrivotError(ValueError):
    """An unusable input, or a privacy guarantee that cannot be given."""


def extra_of(error: ModuleNotFoundError) -> tuple[str, str] | None:
    """Return the missing package and the extra that installs it; None if none does.

    >>> extra_of(ModuleNotFoundError(name="pyarrow.compute"))
    ('pyarrow', 'release')
    """
    package = (error.name or "").partition(".")[0]
    return (package, _EXTRAS[package]) if package in _EXTRAS else None


@contextmanager
def naming_extra(purpose: str, extra: str | None = None) -> Iterator[None]:
    """Raise an error that names the missing package and its extra if an import in the block fails.

    Arguments:
        purpose: Use of the imports: a package of the library, or a kind of model.
        extra: Extra to recommend; by default the smallest one with the missing package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package_and_extra = extra_of(error)
        if package_and_extra is None:
            raise
        missing, smallest = package_and_extra
        raise ModuleNotFoundError(
            f"{purpose} needs {missing}: pip install 'privot[{extra or smallest}]'", name=missing
        ) from None


def load_object(place: str, purpose: str) -> Any:
    """Import and return the object at "package.module:name", for `purpose`; see `naming_extra`.

    >>> load_object("math:sqrt", "a square root")(4.0)
    2.0
    """
    module, _, name = place.partition(":")
    with naming_extra(purpose):
        return getattr(importlib.import_module(module), name)


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, which imports the module of a name on first use.

    It raises AttributeError for unknown names, and names the extra to install if an import fails.

    Arguments:
        package: Name of the package.
        modules: Public names, by the name of the module in the package that defines them.
    """
    places = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return load_object(f"{places[name]}:{name}", f"{package}.{name}")

    return find


def register_kind(kinds: dict[str, Any], kind: str, cls: type, noun: str) -> None:
    """Enter a class in `kinds`, such as all columns ("column" as `noun`), under the name of its kind.

    Raises:
        PrivotError: if another class has the name.
    """
    known = kinds.get(kind, cls)
    # Reloading a module defines its class again, under the same name.
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise PrivotError(
            f"{noun} kind {kind!r} is {known.__module__}.{known.__qualname__}: give yours a name of "
            "its own"
        )
    kinds[kind] = cls


def printable(text: str) -> str:
    r"""Return untrusted text with control characters escaped, so that it cannot steer a terminal.

    >>> printable("a\x1b[2J\n.csv")
    'a\\x1b[2J\\n.csv'
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise PrivotError unless the value is one of the choices."""
    if value not in choices:
        raise PrivotError(f"{name} is {value!r}: choose one of {', '.join(choices)}")


def require_finite(name: str, value: float, *, positive: bool = False) -> None:
    """Raise PrivotError unless value is finite and ≥ 0 (> 0 if `positive`)."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # An integer may be larger than any float.
    if not is_number or not 0 <= value <= sys.float_info.max or (positive and value == 0):
        wanted = "finite and positive" if positive else "finite and at least 0"
        raise PrivotError(f"{name} is {value!r:.40}: give a number that is {wanted}")


def hold_count(owner: object, name: str, most: int, why: str = "", least: int = 1) -> None:
    """Replace a frozen dataclass's field by the Python integer that `require_count` returns for it."""
    count = require_count(name, getattr(owner, name), most, why, least)
    object.__setattr__(owner, name, count)


def require_count(name: str, value: SupportsIndex, most: int, why: str = "", least: int = 1) -> int:
    """Return a Python or NumPy integer from `least` to `most` as a Python integer.

    Raises PrivotError for other numbers, 2.0 and True; `why` explains the limit.

    >>> import numpy as np
    >>> require_count("draws", np.int64(3), 10)
    3
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1  # out of range
    if isinstance(value, bool) or not least <= count <= most:
        reason = f" ({why})" if why else ""
        raise PrivotError(
            f"{name} {value!r} cannot be: give a whole number from {least:,} to {most:,}{reason}"
        )
    return count


def require_people(people: SupportsIndex) -> int:
    """Return a number of people as a Python integer; raise PrivotError if it is out of range."""
    return require_count("people", people, MOST_PEOPLE, "more than ever lived")


def require_seed(seed: SupportsIndex) -> int:
    """Return a seed as a Python integer; raise PrivotError unless it is from 0 to 2⁶³ − 1."""
    return require_count("seed", seed, MOST_SEED, least=0)


def require_learning_rate(rate: float) -> None:
    """Raise PrivotError unless 0 < rate ≤ MOST_LEARNING_RATE."""
    if not (math.isfinite(rate) and 0 < rate <= MOST_LEARNING_RATE):
        raise PrivotError(
            f"learning_rate {rate!r} is out of range: give a number above 0, at most "
            f"{MOST_LEARNING_RATE:g}, such as 0.001"
        )


def require_minutes(minutes: float | None) -> None:
    """Raise PrivotError if a time limit is given and is not finite and positive."""
    if minutes is not None and not 0 < minutes < math.inf:
        raise PrivotError(f"minutes {minutes} is not a time limit: give a number above 0")

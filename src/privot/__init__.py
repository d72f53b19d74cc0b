"""Generative models, synthetic data and distances learned from data that stay private.

Names load on first use: `import privot` takes milliseconds, and what runs on a device (`Schema`,
`Randomizer`, `Release`) works where PyTorch is not installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.errors import PrivotError
    from privot.local import FitSettings, fit
    from privot.models import Model, load
    from privot.release import (
        Randomizer,
        Release,
        collect,
        plan_reports,
        read_table,
        write_table,
    )
    from privot.schema import Schema

__version__ = "0.1.0"

_WHERE = {
    "FitSettings": "privot.local",
    "Model": "privot.models",
    "PrivotError": "privot.errors",
    "Randomizer": "privot.release",
    "Release": "privot.release",
    "Schema": "privot.schema",
    "collect": "privot.release",
    "fit": "privot.local",
    "load": "privot.models",
    "plan_reports": "privot.release",
    "read_table": "privot.release",
    "write_table": "privot.release",
}

__all__ = [
    "FitSettings",
    "Model",
    "PrivotError",
    "Randomizer",
    "Release",
    "Schema",
    "__version__",
    "collect",
    "fit",
    "load",
    "plan_reports",
    "read_table",
    "write_table",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'privot' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_WHERE[name]), name)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ModuleNotFoundError(
                f"privot.{name} needs PyTorch: pip install 'privot[learn]'", name="torch"
            ) from None
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

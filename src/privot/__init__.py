"""Generative models, synthetic data and distances learned from data that stay private.

Names and submodules load on first use: `import privot` takes milliseconds. What a person's device runs,
`privot.device` and the ledger of `privot.waves`, needs Python alone; `Schema`, `Randomizer` and
`Release` come with the extra `release`, and whatever learns with the extra `learn`.
"""

from __future__ import annotations

import importlib
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.collector import collect
    from privot.core.errors import PrivotError
    from privot.evaluation import check, evaluate
    from privot.local import FitSettings, fit
    from privot.models import Model, load
    from privot.randomizer import Randomizer, Release
    from privot.report import plot, write_report
    from privot.schema import Schema
    from privot.tables.files import read_table, write_table

__version__ = "0.1.0"

_NAMES = {
    "collector": ("collect",),
    "core.errors": ("PrivotError",),
    "evaluation": ("check", "evaluate"),
    "local": ("FitSettings", "fit"),
    "models": ("Model", "load"),
    "randomizer": ("Randomizer", "Release"),
    "report": ("plot", "write_report"),
    "schema": ("Schema",),
    "tables.files": ("read_table", "write_table"),
}
# Packages that the extra `learn` is for; networks among them need the extra `networks`.
_LEARNING = {
    "transport", "models", "training", "local", "central", "aggregated", "integral", "evaluation",
    "report", "demo",
}  # fmt: skip
_WHERE = {name: package for package, names in _NAMES.items() for name in names}

__all__ = [
    "FitSettings",
    "Model",
    "PrivotError",
    "Randomizer",
    "Release",
    "Schema",
    "__version__",
    "check",
    "collect",
    "evaluate",
    "fit",
    "load",
    "plot",
    "read_table",
    "write_report",
    "write_table",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE and name not in {module.name for module in iter_modules(__path__)}:
        raise AttributeError(f"module 'privot' has no attribute {name!r}")
    package = _WHERE.get(name, name)
    from privot.core.errors import naming_extra

    with naming_extra(f"privot.{name}", "learn" if package in _LEARNING else None):
        module = importlib.import_module(f"privot.{package}")
        value = getattr(module, name) if name in _WHERE else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

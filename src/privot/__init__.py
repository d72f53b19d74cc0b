"""Generative models, synthetic data and distances learned from data that stay private.

Names and submodules load on first use, so `import privot` takes milliseconds. The code for devices
(`privot.device` and the ledger of `privot.waves`) needs only Python; `Schema`, `Randomizer` and
`Release` need the extra `release`, and all packages that learn models need the extra `learn`.
"""

import importlib
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.collector import collect
    from privot.core.errors import PrivotError
    from privot.evaluation import check, evaluate
    from privot.local import FitSettings, fit
    from privot.models import Model, load
    from privot.randomizer import Counts, Randomizer, Release, count
    from privot.report import plot, write_report
    from privot.schema import Schema
    from privot.tables.files import read_table, write_table

__version__ = "0.1.0"

# Public names by the module that defines them.
_NAMES = {
    "collector": ("collect",),
    "core.errors": ("PrivotError",),
    "evaluation": ("check", "evaluate"),
    "local": ("FitSettings", "fit"),
    "models": ("Model", "load"),
    "randomizer": ("Counts", "Randomizer", "Release", "count"),
    "report": ("plot", "write_report"),
    "schema": ("Schema",),
    "tables.files": ("read_table", "write_table"),
}
# Packages that need the extra `learn`; modules with networks also need the extra `networks`.
_NEED_LEARN = {
    "transport", "models", "training", "local", "central", "aggregated", "integral", "evaluation",
    "report", "demo",
}  # fmt: skip
_MODULE_OF = {name: package for package, names in _NAMES.items() for name in names}

__all__ = [
    "Counts", "FitSettings", "Model", "PrivotError", "Randomizer", "Release", "Schema", "__version__",
    "check", "collect", "count", "evaluate", "fit", "load", "plot", "read_table", "write_report",
    "write_table",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF and name not in {module.name for module in iter_modules(__path__)}:
        raise AttributeError(f"module 'privot' has no attribute {name!r}")
    package = _MODULE_OF.get(name, name)
    from privot.core.errors import naming_extra

    with naming_extra(f"privot.{name}", "learn" if package in _NEED_LEARN else None):
        module = importlib.import_module(f"privot.{package}")
        value = getattr(module, name) if name in _MODULE_OF else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

"""Public names show how they are used: most have an example, which the suite runs."""

import importlib
import inspect
import re
from pathlib import Path

API = Path(__file__).parents[1] / "docs" / "api"
LEAST_SHARE = 0.8


def public():
    """Classes and functions of every `__all__` of the reference, once each, by one of their names.

    Not those that nobody calls: protocols, which describe what others bring, and exceptions.
    """
    pages = "".join(page.read_text(encoding="utf-8") for page in API.glob("*.md"))
    packages = re.findall(r"^```\{public\} (\S+)$", pages, re.MULTILINE)
    assert len(packages) > 10
    found = {}
    for package in ("privot", *packages):
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or (inspect.isclass(thing) and is_used(thing)):
                found[thing] = f"{package}.{name}"
    return found


def is_used(cls):
    return not (issubclass(cls, BaseException) or getattr(cls, "_is_protocol", False))


def has_example(thing):
    """In its docstring, or in those of its methods, which stand on the same page."""
    parts = [thing, *vars(thing).values()] if inspect.isclass(thing) else [thing]
    return any(">>> " in (getattr(part, "__doc__", None) or "") for part in parts)


def test_most_public_names_have_an_example():
    names = public()
    without = sorted(name for thing, name in names.items() if not has_example(thing))
    assert 1 - len(without) / len(names) >= LEAST_SHARE, without

"""Summaries of objects: one line in a terminal, a small table in a notebook."""

from collections.abc import Mapping
from html import escape

_MAX_NAMES = 6  # names of a mapping that one line shows


class Summarized:
    """Base class whose `repr` and notebook table show the object's `summary`."""

    def summary(self) -> Mapping[str, object]:
        """Return named facts, each shown in one line; none may depend on raw records."""
        raise NotImplementedError  # subclasses define it

    def __repr__(self) -> str:
        facts = [f"{name}: {_in_short(fact)}" for name, fact in self.summary().items()]
        return f"{type(self).__name__}({'; '.join(facts)})"

    def __str__(self) -> str:  # a pydantic model has its own, with every field
        return repr(self)

    def _repr_html_(self) -> str:
        rows = [_row(name, fact) for name, fact in self.summary().items()]
        return f"<table><caption>{escape(type(self).__name__)}</caption>{''.join(rows)}</table>"


def _in_short(fact: object) -> str:
    if not isinstance(fact, Mapping):
        return str(fact)
    names = [str(name) for name in fact]
    more = [f"and {len(names) - _MAX_NAMES:,} more"] if len(names) > _MAX_NAMES else []
    return ", ".join(names[:_MAX_NAMES] + more)


def _row(name: str, fact: object) -> str:
    cell = escape(str(fact))
    if isinstance(fact, Mapping):
        cell = f"<table>{''.join(_row(str(key), value) for key, value in fact.items())}</table>"
    return f"<tr><th>{escape(name)}</th><td>{cell}</td></tr>"

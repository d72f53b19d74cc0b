"""Conditions of a sample, by values: what a model can draw by, and what has to be looked at in records.

A model draws by codes: a category, a bin. A range, `30..40`, cuts bins, and a column that a rule defines
is computed from what was drawn: such conditions are rules of this one sample, kept by drawing again;
what is missing does not meet them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from privot.errors import PrivotError
from privot.schema.rules.terms import Term

if TYPE_CHECKING:
    from privot.schema.schema import Schema

RANGE = ".."


def values_of(given: Any) -> list[Any]:
    """The values that a condition lists for a column, be it one or several."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


def looked_at(schema: Schema, where: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Term]]:
    """What of a condition is left to the model, and the rest as rules by their words.

    Raises:
        PrivotError: for what cannot be compared with the column.
    """
    rules, drawn, kept = schema.read_rules, dict(where), {}
    for name, given in where.items():
        values = values_of(given)
        computed = name in rules.defined
        if not computed and not any(_is_range(schema, name, value) for value in values):
            continue
        words = " or ".join(_words(name, value) for value in values)
        if computed:
            del drawn[name]
        elif not all(_is_range(schema, name, value) for value in values):
            raise PrivotError(
                f"where gives column {name!r} ranges and other values: give one of both"
            )
        kept[f"({words})"] = rules.condition(f"({words})")
    return drawn, kept


def _is_range(schema: Schema, name: str, value: object) -> bool:
    column = schema.declared.get(name)
    numbers = column is not None and column.in_rules in ("number", "date")
    return numbers and isinstance(value, str) and RANGE in value


def _words(name: str, value: object) -> str:
    """A comparison, in the language of rules, that what is missing does not meet."""
    if value is None:
        return f"`{name}` = missing"
    return f"`{name}` != missing and {_comparison(name, value)}"


def _comparison(name: str, value: object) -> str:
    if isinstance(value, bool):
        return f"`{name}` = {str(value).lower()}"
    if isinstance(value, str) and RANGE in value:
        low, _, high = value.partition(RANGE)
        return f"{low} <= `{name}` <= {high}"
    text = str(value)
    plain = not isinstance(value, str) or text in ("true", "false") or text[:1].isdigit()
    return f"`{name}` = {text}" if plain else f'`{name}` = "{text}"'

"""Samples that keep the rules: what a model draws, completed, and drawn again where a rule is broken."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError
from privot.schema.terms import Term

if TYPE_CHECKING:
    from privot.schema.schema import Schema

RANGE = ".."


def values_of(given: Any) -> list[Any]:
    """The values that a condition lists for a column, be it one or several."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


def looked_at(schema: Schema, where: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Term]]:
    """Split a condition into what is left to the model, and rules by their words.

    A model draws by codes: a category, a bin. A range, `30..40`, cuts bins, and a column that a rule
    defines is computed from what was drawn: such conditions are rules of this one sample, met by
    drawing again; what is missing does not meet them.

    Raises:
        PrivotError: for what cannot be compared with the column.
    """
    rules, drawn, conditions = schema.read_rules, dict(where), {}
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
        conditions[f"({words})"] = rules.condition(f"({words})")
    return drawn, conditions


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


Draw = Callable[[int], Iterator[pa.Table]]

# Fewer than one record in so many that keeps the rules is an error, once so many were drawn.
_MAX_TRIES_PER_RECORD, _MIN_TRIALS = 100, 20_000


def completed(
    schema: Schema,
    draw: Draw,
    num_rows: int,
    rng: np.random.Generator,
    conditions: Mapping[str, Term] | None = None,
) -> Iterator[pa.Table]:
    """Records with all columns of the schema, in its order, that keep its rules, moved as it says.

    Arguments:
        schema: Whose rules, and made-up columns.
        draw: Draws so many records of the reported columns, in pieces; of none, one empty piece.
        num_rows: How many are wanted.
        rng: Of identifiers, and of what is moved.
        conditions: More that these records keep, by their words.

    Raises:
        PrivotError: if hardly any record keeps the rules, or a pattern has too few identifiers.
    """
    identifiers = {name: c.made_up(num_rows, rng) for name, c in schema.identifiers.items()}
    read = schema.read_rules
    read = replace(read, conditions={**read.conditions, **(conditions or {})})
    accepted = tried = requested = 0
    broken: Counter[str] = Counter()
    while requested == 0 or accepted < num_rows:
        requested = _next(num_rows - accepted, accepted, tried)
        for drawn in draw(requested):
            table, rules = read.complete(drawn)
            good = np.ones(table.num_rows, np.bool_)
            for rule, rows in rules.items():
                good &= ~rows
                broken[rule] += int(rows.sum())
            tried += table.num_rows
            table = (table if good.all() else table.filter(pa.array(good))).slice(
                0, num_rows - accepted
            )
            accepted += table.num_rows
            for name, column in schema.images.items():
                table = column.augmented(name, table, rng)
            for name, make_up in identifiers.items():
                table = table.append_column(name, make_up(table.num_rows))
            yield table.select(list(schema.sampled_columns))
        _require_some(broken, accepted, tried, num_rows)
        requested = max(requested, 1)


def _next(wanted: int, accepted: int, tried: int) -> int:
    """Return how many records to draw, by those so far, so that as many as are wanted meet the rules."""
    if not tried or not wanted:
        return wanted
    rate = (accepted + 1) / (tried + 1)
    return min(math.ceil(1.1 * wanted / rate) + 10, max(_MIN_TRIALS, 4 * wanted))


def _require_some(broken: Counter[str], accepted: int, tried: int, num_rows: int) -> None:
    if accepted < num_rows and tried >= _MIN_TRIALS and accepted * _MAX_TRIES_PER_RECORD < tried:
        rule, number = broken.most_common(1)[0]
        raise PrivotError(
            f"rule {rule!r} is broken by {number:,} of {tried:,} records drawn, and only {accepted:,} "
            "keep all: correct the rules, or define the column by a rule, so that it is computed"
        )

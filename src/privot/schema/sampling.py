"""Samples that satisfy a schema's rules: records drawn from a model, completed, by rejection.

A model draws the reported columns. Columns that rules define are computed, records that break a rule are
drawn again (`privot.schema.rules`), images are moved at random, and identifiers are generated. All of
this is post-processing of the model.
"""

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
    """Return the list of values that a condition gives for a column: one value, or an iterable."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


def split_where(schema: Schema, where: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Term]]:
    """Split a condition into a part that a model can draw by, and rules for rejection.

    A model draws conditionally on codes: categories and bins. A range, `30..40`, may cut bins, and a
    column that a rule defines is computed after drawing: such conditions become rules of this sample,
    which are satisfied by rejection. A missing value does not satisfy them.

    Raises:
        PrivotError: for a value that cannot be compared with its column.
    """
    rules, drawn, conditions = schema.read_rules, dict(where), {}
    for name, given in where.items():
        values = values_of(given)
        computed = name in rules.defined
        if not computed and not any(_is_range(schema, name, value) for value in values):
            continue
        words = " or ".join(_rule_text(name, value) for value in values)
        if computed:
            del drawn[name]
        elif not all(_is_range(schema, name, value) for value in values):
            raise PrivotError(f"where gives column {name!r} ranges and other values: give either")
        conditions[f"({words})"] = rules.condition(f"({words})")
    return drawn, conditions


def _is_range(schema: Schema, name: str, value: object) -> bool:
    """Return whether a value of a condition is a range of a number or date."""
    column = schema.declared.get(name)
    numbers = column is not None and column.in_rules in ("number", "date")
    return numbers and isinstance(value, str) and RANGE in value


def _rule_text(name: str, value: object) -> str:
    """Return a comparison in the language of rules, which missing values do not satisfy."""
    if value is None:
        return f"`{name}` = missing"
    return f"`{name}` != missing and {_comparison(name, value)}"


def _comparison(name: str, value: object) -> str:
    """Return the rule that a column has a value, or is within a range."""
    if isinstance(value, bool):
        return f"`{name}` = {str(value).lower()}"
    if isinstance(value, str) and RANGE in value:
        low, _, high = value.partition(RANGE)
        return f"{low} <= `{name}` <= {high}"
    text = str(value)
    is_text = isinstance(value, str) and text not in ("true", "false") and not text[:1].isdigit()
    return f'`{name}` = "{text}"' if is_text else f"`{name}` = {text}"


Draw = Callable[[int], Iterator[pa.Table]]

# After _MIN_TRIALS draws, less than one accepted record in _MAX_TRIES_PER_RECORD is an error.
_MAX_TRIES_PER_RECORD, _MIN_TRIALS = 100, 20_000


def completed(
    schema: Schema,
    draw: Draw,
    num_rows: int,
    rng: np.random.Generator,
    conditions: Mapping[str, Term] | None = None,
) -> Iterator[pa.Table]:
    """Yield records that satisfy the schema's rules, with all its columns in order.

    Arguments:
        schema: Schema with the rules, identifiers and image movements.
        draw: Function that draws records of the reported columns, in pieces; for 0, one empty piece.
        num_rows: Number of records.
        rng: Generator of identifiers and image movements.
        conditions: Additional conditions, by their text.

    Raises:
        PrivotError: if hardly any record satisfies the rules, or a pattern has too few identifiers.
    """
    generators = {name: c.generator(num_rows, rng) for name, c in schema.identifiers.items()}
    rules = schema.read_rules
    rules = replace(rules, conditions={**rules.conditions, **(conditions or {})})
    accepted = tried = 0
    broken: Counter[str] = Counter()
    while True:  # at least once, as 0 records are one empty piece
        for drawn in draw(_num_to_draw(num_rows - accepted, accepted, tried)):
            table, breaking = rules.complete(drawn)
            satisfying = np.ones(table.num_rows, np.bool_)
            for rule, rows in breaking.items():
                satisfying &= ~rows
                broken[rule] += int(rows.sum())
            tried += table.num_rows
            table = table if satisfying.all() else table.filter(pa.array(satisfying))
            table = table.slice(0, num_rows - accepted)
            accepted += table.num_rows
            for name, column in schema.images.items():
                table = column.augmented(name, table, rng)
            for name, generate in generators.items():
                table = table.append_column(name, generate(table.num_rows))
            yield table.select(list(schema.sampled_columns))
        if accepted >= num_rows:
            return
        _require_some(broken, accepted, tried)


def _num_to_draw(wanted: int, accepted: int, tried: int) -> int:
    """Return how many records to draw so that `wanted` satisfy the rules, by the rate so far."""
    if not tried or not wanted:
        return wanted
    rate = (accepted + 1) / (tried + 1)
    # A tenth more, so that one more draw is usually enough; bounded while the rate is uncertain.
    return min(math.ceil(1.1 * wanted / rate) + 10, max(_MIN_TRIALS, 4 * wanted))


def _require_some(broken: Counter[str], accepted: int, tried: int) -> None:
    """Raise PrivotError if hardly any record satisfies the rules; `broken` counts records by rule."""
    if tried >= _MIN_TRIALS and accepted * _MAX_TRIES_PER_RECORD < tried:
        rule, number = broken.most_common(1)[0]
        raise PrivotError(
            f"rule {rule!r} is broken by {number:,} of {tried:,} records drawn, and only {accepted:,} "
            "keep all: correct the rules, or define the column by a rule, so that it is computed"
        )

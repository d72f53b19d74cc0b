r"""Rules between columns: samples keep them, devices never see them.

A rule **defines** a column, `total = rooms + board`, or is a **condition**, `discharge >= admission`,
`if pregnant then sex = F` (`privot.schema.rules.language`).

- A column that is defined is left out of reports and costs nothing: samples have it computed. Its
  bounds, or categories, are a condition.
- Conditions are kept by **rejection**: a record that breaks one is drawn again, so samples have the
  model's distribution given the rules. If hardly any record keeps them, they say so instead of going on.

**Privacy review.** Adjacency: any two records. Rules are public, part of the schema, and a sample is a
function of the model, of them and of coins. Devices do not evaluate them: a record that breaks one is
reported like any other, for a refusal would tell that it does. A table on a device may have a defined
column or not; where records are read it is dropped, in no report, no error and no count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.errors import PrivotError
from privot.schema.columns.column import Column
from privot.schema.rules.language import read_rule
from privot.schema.rules.terms import Term, column_term, moments

Mask = NDArray[np.bool_]
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Rules:
    """What a schema's rules say.

    Arguments:
        columns: All that are declared.
        defined: The columns that rules define, in an order in which they can be computed.
        conditions: The others, by their text.
    """

    columns: Mapping[str, Column]
    defined: Mapping[str, Term]
    conditions: Mapping[str, Term]

    @classmethod
    def of(cls, texts: tuple[str, ...], columns: Mapping[str, Column]) -> Rules:
        """Read the rules.

        Raises:
            PrivotError: naming the rule that cannot be.
        """
        terms = _all_terms(columns)
        defined: dict[str, tuple[str, Term]] = {}
        conditions = {}
        for text in texts:
            name, term = read_rule(text, terms)
            if not term.columns:
                raise PrivotError(
                    f"rule {text!r} depends on no column: name one, as the schema does"
                )
            if name is None:
                if term.type != "truth":
                    raise PrivotError(
                        f"rule {text!r} is a {term.type}: write a condition, or COLUMN = VALUE"
                    )
                conditions[text] = term
            elif name in defined or name not in columns:
                why = "is defined twice" if name in defined else "is part of a vector"
                raise PrivotError(f"rule {text!r}: column {name!r} {why}: leave one out")
            else:
                _require_value(text, terms[name], term)
                defined[name] = text, term
        return cls(columns, _ordered(defined), conditions)

    def condition(self, text: str) -> Term:
        """A condition more, which records of one sample keep.

        Raises:
            PrivotError: naming the word that cannot be.
        """
        _, term = read_rule(text, _all_terms(self.columns))
        return term

    def complete(self, table: pa.Table) -> tuple[pa.Table, dict[str, Mask]]:
        """The table with the defined columns; and by rule, which rows break it."""
        broken = {}
        for name, term in self.defined.items():
            column, wrong = _written(name, self.columns[name], term, table)
            table = table.append_column(name, column)
            broken[f"{name} = … within its declaration"] = wrong
        for text, term in self.conditions.items():
            kept = pc.fill_null(term.values(table), True)
            broken[text] = ~np.asarray(kept.to_numpy(zero_copy_only=False), np.bool_)
        return table, broken


def _all_terms(columns: Mapping[str, Column]) -> dict[str, Term]:
    return {part: term for name, column in columns.items() for part, term in _terms(name, column)}


def _terms(name: str, column: Column) -> list[tuple[str, Term]]:
    """What rules may name of a column."""
    if column.in_rules is None:
        return []
    listed = None
    if column.in_rules == "text" and column.alphabet is not None:
        listed = column.alphabet.labels[: column.alphabet.size - column.nullable]
    return [
        (part, column_term(part, column.in_rules, listed)) for part in column.table_columns(name)
    ]


def _require_value(text: str, column: Term, term: Term) -> None:
    """Refuse a value that the column it defines cannot hold."""
    if term.type not in (column.type, "missing"):
        raise PrivotError(
            f"rule {text!r} defines a {column.type} by a {term.type}: correct it; a condition on a "
            "column stands in parentheses"
        )
    said = term.listed or (() if term.literal is None else (term.literal,))
    unlisted = [one for one in said if column.listed is not None and one not in column.listed]
    if unlisted:
        raise PrivotError(
            f"rule {text!r} says {unlisted[0]!r}, which is none of the categories of "
            f"{column.words!r}: declare it there, or correct the rule"
        )


def _ordered(defined: Mapping[str, tuple[str, Term]]) -> dict[str, Term]:
    """Definitions in an order in which each needs none that comes later."""
    left = dict(defined)
    ordered: dict[str, Term] = {}
    while left:
        ready = [name for name, (_, term) in left.items() if not term.columns & left.keys()]
        if not ready:
            text = next(iter(left.values()))[0]
            raise PrivotError(f"rule {text!r} defines a column by itself: begin with others")
        ordered |= {name: left.pop(name)[1] for name in ready}
    return ordered


def _written(name: str, column: Column, term: Term, table: pa.Table) -> tuple[Any, Mask]:
    """A defined column as the table holds it, and the rows whose value its declaration forbids."""
    values = term.values(table)
    if term.type == "date":
        values = moments(values)
    raw = pa.table({name: values})
    read, problems = column.read(name, raw)
    wrong = np.zeros(table.num_rows, np.bool_)
    for problem in problems:
        wrong |= problem.rows
    if column.domain is None:
        made: Mapping[str, Any] = column.decode_codes(name, read, np.random.default_rng(0))  # type: ignore[attr-defined]  # it has codes then
    else:
        low, high = column.domain.lower[0], column.domain.upper[0]  # type: ignore[attr-defined]  # of one number
        slack = _ROUNDING * max(abs(low), abs(high), 1.0)
        wrong |= (read < low - slack) | (read > high + slack)
        made = column.decode_points(name, read[:, None])  # type: ignore[attr-defined]  # it has a domain
    return made[name], wrong

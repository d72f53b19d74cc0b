"""Terms: typed expressions of a rule, evaluated on the columns of a table.

A term has a type and a function from tables to values. Values are Arrow arrays: numbers, dates in days
since 1970, texts, truth values. Missing values are null, with the logic of SQL: a comparison with null
is neither true nor false, and a rule is broken only where it is false.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from privot.core.errors import PrivotError

Type = Literal["number", "date", "text", "truth", "missing"]
Values = Callable[[pa.Table], Any]

_DAY = 86_400.0
_EPOCH = dt.datetime(1970, 1, 1)
_ARROW = {"number": pa.float64(), "text": pa.string(), "truth": pa.bool_()}
_COMPARISONS = {
    "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal, "=": pc.equal,
    "!=": pc.not_equal,
}  # fmt: skip
_ARITHMETIC = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
# Type of a result, by (type, operator, type).
_RESULT_TYPES: dict[tuple[Type, str, Type], Type] = {
    **{("number", sign, "number"): "number" for sign in _ARITHMETIC},
    ("date", "-", "date"): "number",
    ("date", "+", "number"): "date",
    ("date", "-", "number"): "date",
    ("number", "+", "date"): "date",
}


@dataclass(frozen=True, eq=False)
class Term:
    """Expression in a rule.

    Arguments:
        type: Type of its values.
        values: Function from a table to its values (n,), or to a constant.
        columns: Names of the columns that it depends on.
        words: Its text in the rule, for errors.
        listed: Texts that it may have, if it is a column with categories.
        literal: The text itself, if it is a constant text.
    """

    type: Type
    values: Values
    columns: frozenset[str] = frozenset()
    words: str = ""
    listed: tuple[str, ...] | None = None
    literal: str | None = None

    @property
    def noun(self) -> str:
        """Its type with an article, for errors."""
        return "missing" if self.type == "missing" else f"a {self.type}"

    def derived(self, kind: Type, values: Values, *others: Term) -> Term:
        """Return a term of type `kind`, with `values` computed from this term and others."""
        columns = self.columns.union(*(other.columns for other in others))
        return Term(kind, values, columns, self.words)


def column_term(name: str, kind: Type, listed: tuple[str, ...] | None) -> Term:
    """Return the term of a table column."""
    columns = frozenset([name])
    return Term(kind, lambda table: _term_values(table.column(name), kind), columns, name, listed)


def constant(kind: Type, value: float | bool | str, words: str) -> Term:
    """Return the term of a constant number, truth value or text."""
    literal = value if isinstance(value, str) else None
    return Term(kind, lambda table: pa.scalar(value), words=words, literal=literal)


def date_constant(words: str) -> Term:
    """Return the term of a constant date or time, in ISO 8601."""
    try:
        days = (dt.datetime.fromisoformat(words) - _EPOCH).total_seconds() / _DAY
    except (ValueError, TypeError):
        raise PrivotError(f"{words!r} is a date that no calendar has: correct it") from None
    return Term("date", lambda table: pa.scalar(days), words=words)


# The keyword `missing`, which a term may be compared with, or be equal to.
NOTHING = Term("missing", lambda table: None, words="missing")


def combined(first: Term, sign: str, second: Term) -> Term:
    """Return the sum, difference, product or quotient of two terms."""
    kind = _RESULT_TYPES.get((first.type, sign, second.type))
    if kind is None:
        raise PrivotError(
            f"{first.words!r} {sign} {second.words!r} is {first.noun} {sign} {second.noun}: compute "
            "with numbers, and with dates and days"
        )
    compute = _ARITHMETIC[sign]
    return first.derived(kind, lambda t: compute(first.values(t), second.values(t)), second)


def compared(first: Term, sign: str, second: Term) -> Term:
    """Return the comparison of two terms; compared with `missing`, whether a term is null."""
    if "missing" in (first.type, second.type):
        given = second if first.type == "missing" else first
        if sign not in ("=", "!=") or given.type == "missing":
            raise PrivotError(
                f"missing is compared by {sign}: write COLUMN = missing, or != missing"
            )
        if sign == "=":
            return given.derived("truth", lambda t: pc.is_null(given.values(t)))
        return given.derived("truth", lambda t: pc.is_valid(given.values(t)))
    _require_same_type(first, second, f"compared by {sign}")
    if sign not in ("=", "!=") and first.type not in ("number", "date"):
        raise PrivotError(
            f"{first.words!r} {sign} {second.words!r} compares {first.type}s, which have no order: "
            "use = or !="
        )
    compare = _COMPARISONS[sign]
    return first.derived("truth", lambda t: compare(first.values(t), second.values(t)), second)


def joined(word: Literal["or", "and"], first: Term, second: Term) -> Term:
    """Return the disjunction or conjunction of two conditions."""
    _require_truth(word, first, second)
    join = pc.or_kleene if word == "or" else pc.and_kleene
    return first.derived("truth", lambda t: join(first.values(t), second.values(t)), second)


def negated(term: Term) -> Term:
    """Return the negation of a condition."""
    _require_truth("not", term)
    return term.derived("truth", lambda t: pc.invert(term.values(t)))


def chosen(condition: Term, first: Term, second: Term) -> Term:
    """Return the term `first` where the condition holds, `second` where it does not."""
    _require_truth("if", condition)
    kind = second.type if first.type == "missing" else first.type
    if "missing" not in (first.type, second.type):
        _require_same_type(first, second, "the outcomes of if")
    listed = [term.literal for term in (first, second) if term.literal is not None]
    listed += [text for term in (first, second) for text in term.listed or ()]

    def values(table: pa.Table) -> Any:
        return pc.if_else(condition.values(table), first.values(table), second.values(table))

    return replace(first.derived(kind, values, condition, second), listed=tuple(listed) or None)


def _require_truth(word: str, *terms: Term) -> None:
    """Raise PrivotError unless all terms beside `word` are conditions."""
    for term in terms:
        if term.type != "truth":
            raise PrivotError(
                f"{term.words!r} beside {word!r} is {term.noun}: write a condition, such as a comparison"
            )


def _require_same_type(first: Term, second: Term, how: str) -> None:
    """Raise PrivotError unless two terms have one type, and constant texts are listed categories."""
    if first.type != second.type:
        raise PrivotError(
            f"{first.words!r} is {first.noun} and {second.words!r} is {second.noun}, {how}: use two of "
            "a type (a text that is no column is a category; put others in quotes)"
        )
    for term, other in ((first, second), (second, first)):
        listed, text = term.listed, other.literal
        if listed is not None and text is not None and text not in listed:
            raise PrivotError(
                f"{text!r} is no column, and none of the categories of {term.words!r}: use one "
                f"of {', '.join(listed[:8])}"
            )


def _term_values(values: pa.ChunkedArray, kind: Type) -> Any:
    """Convert a table's values to those of a term: dates to days since 1970, others by their type."""
    if kind != "date":
        return values.cast(_ARROW[kind])
    seconds = values.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64())
    return pc.divide(seconds, 1e6 * _DAY)


def to_timestamps(days: Any) -> pa.Array:
    """Convert days since 1970 to timestamps, as tables hold them."""
    return pc.round(pc.multiply(days, _DAY)).cast(pa.int64()).cast(pa.timestamp("s"))

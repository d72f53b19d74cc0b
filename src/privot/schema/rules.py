"""Rules between columns, which samples satisfy and devices never evaluate.

A rule **defines** a column, `total = rooms + board`, or is a **condition**, `discharge >= admission` or
`if pregnant then sex = F`.

- A defined column is not reported, so it costs no privacy: it is computed in samples. Its declared
  bounds, or categories, are a condition.
- Conditions hold by **rejection**: a sampled record that breaks one is drawn again, so samples have the
  model's distribution given the conditions. If hardly any record satisfies them, an error is raised.

**Privacy review.** Adjacency: any two records. Rules are public, as part of the schema, and a sample is
a function of the model, the rules and random numbers. Devices do not evaluate rules: a record that
breaks a rule is reported like any other, since a refusal would reveal that it does. A table on a device
may have a defined column; it is dropped on reading, and no report, error or count depends on it.

```
rule       = COLUMN "=" value                        the rule defines the column
           | value                                   a condition that every sampled record satisfies
value      = "if" value "then" value ["else" value]  without else: (not first) or second
           | value "or" value | value "and" value | "not" value
           | value ("<" | "<=" | "=" | "!=" | ">=" | ">") value …      chains: 0 <= a < b
           | value ["not"] "in" "(" constant {"," constant} ")"
           | value ("+" | "-" | "*" | "/") value | "-" value | "(" value ")"
           | COLUMN | number | date | text | "true" | "false" | "missing"
```

A name denotes a column, in backquotes if it has blanks; other names, and "quoted words", are texts. A
date is written as 2024-05-31; the difference of dates is in days. Rules are parsed once, with the
schema, into functions on tables: there is no `eval`, and the depth of nesting is limited.

A **term**, which is an expression in a rule, has a type and a function from tables to values. Values are
Arrow arrays: numbers, dates in days since 1970, texts, truth values. Missing values are null, with the
logic of SQL: a comparison with null is neither true nor false, and a rule is broken only where it is
false.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.schema.columns.column import CodedColumn, Column
from privot.schema.columns.numeric import NumberColumn

Type = Literal["number", "date", "text", "truth", "missing"]
Evaluate = Callable[[pa.Table], Any]

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

_WORDS = frozenset(("if", "then", "else", "and", "or", "not", "in"))
_TOKEN = re.compile(
    r"""\s*(?:(?P<date>\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?)?)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    |`(?P<column>[^`]+)`|"(?P<text>[^"]*)"|'(?P<single>[^']*)'
    |(?P<name>[^\W\d]\w*)|(?P<sign><=|>=|!=|==|[-+*/=<>(),]))""",
    re.VERBOSE,
)
_MAX_LETTERS, _MAX_DEPTH = 2000, 40  # of a rule: its length, and its nesting
_ROUNDING = 1e-9  # by which a computed number may exceed a bound, relative to the bounds
Token = tuple[str, str]  # (kind, text)
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Term:
    """Expression in a rule."""

    type: Type  # type of its values
    values: Evaluate  # function from a table to its values (n,), or to a constant
    columns: frozenset[str] = frozenset()  # names of the columns that it depends on
    text: str = ""  # its text in the rule, for errors
    # Texts that it may be, if these are known from a column's categories; otherwise None.
    listed: tuple[str, ...] | None = None
    literal: str | None = None  # its value, if it is a constant text

    @property
    def noun(self) -> str:
        """Type with an article, for errors."""
        return "missing" if self.type == "missing" else f"a {self.type}"

    def derived(self, kind: Type, compute: Callable[..., Any], *others: "Term") -> "Term":
        """Return a term of type `kind`: a function of the values of this term and of others."""
        terms = (self, *others)
        columns = self.columns.union(*(other.columns for other in others))
        return Term(
            kind, lambda table: compute(*(t.values(table) for t in terms)), columns, self.text
        )


def column_term(name: str, kind: Type, listed: tuple[str, ...] | None) -> Term:
    """Return the term of a table column."""
    columns = frozenset([name])
    return Term(kind, lambda table: _term_values(table.column(name), kind), columns, name, listed)


def constant(kind: Type, value: float | bool | str, text: str) -> Term:
    """Return the term of a constant number, truth value or text."""
    literal = value if isinstance(value, str) else None
    return Term(kind, lambda table: pa.scalar(value), text=text, literal=literal)


def date_constant(text: str) -> Term:
    """Return the term of a constant date or time, in ISO 8601."""
    try:
        days = (dt.datetime.fromisoformat(text) - _EPOCH).total_seconds() / _DAY
    except (ValueError, TypeError):
        raise PrivotError(f"{text!r} is a date that no calendar has: correct it") from None
    return Term("date", lambda table: pa.scalar(days), text=text)


def _arithmetic(first: Term, sign: str, second: Term) -> Term:
    """Return the sum, difference, product or quotient of two terms."""
    kind = _RESULT_TYPES.get((first.type, sign, second.type))
    if kind is None:
        raise PrivotError(
            f"{first.text!r} {sign} {second.text!r} is {first.noun} {sign} {second.noun}: compute "
            "with numbers, and with dates and days"
        )
    return first.derived(kind, _ARITHMETIC[sign], second)


def _comparison(first: Term, sign: str, second: Term) -> Term:
    """Return the comparison of two terms; if one is `missing`, whether the other is null (or not)."""
    if "missing" in (first.type, second.type):
        term = second if first.type == "missing" else first
        if sign not in ("=", "!=") or term.type == "missing":
            raise PrivotError(
                f"missing is compared by {sign}: write COLUMN = missing, or != missing"
            )
        return term.derived("truth", pc.is_null if sign == "=" else pc.is_valid)
    _require_same_type(first, second, f"compared by {sign}")
    if sign not in ("=", "!=") and first.type not in ("number", "date"):
        raise PrivotError(
            f"{first.text!r} {sign} {second.text!r} compares {first.type}s, which have no order: "
            "use = or !="
        )
    return first.derived("truth", _COMPARISONS[sign], second)


def _connective(first: Term, word: str, second: Term) -> Term:
    """Return the disjunction (`or`) or conjunction (`and`) of two conditions."""
    _require_truth(word, first, second)
    return first.derived("truth", pc.or_kleene if word == "or" else pc.and_kleene, second)


def _negation(term: Term) -> Term:
    """Return the negation of a condition."""
    _require_truth("not", term)
    return term.derived("truth", pc.invert)


def _conditional(condition: Term, first: Term, second: Term) -> Term:
    """Return a term with the values of `first` where the condition holds, else those of `second`."""
    _require_truth("if", condition)
    kind = second.type if first.type == "missing" else first.type
    if "missing" not in (first.type, second.type):
        _require_same_type(first, second, "the outcomes of if")
    listed = [term.literal for term in (first, second) if term.literal is not None]
    listed += [text for term in (first, second) for text in term.listed or ()]
    term = first.derived(kind, lambda x, holds, y: pc.if_else(holds, x, y), condition, second)
    return replace(term, listed=tuple(listed) or None)


def _require_truth(word: str, *terms: Term) -> None:
    """Raise PrivotError unless all operands of `word` in the rule are conditions."""
    for term in terms:
        if term.type != "truth":
            raise PrivotError(
                f"{term.text!r} beside {word!r} is {term.noun}: write a condition, such as a comparison"
            )


def _require_same_type(first: Term, second: Term, use: str) -> None:
    """Raise PrivotError unless terms have one type, and a constant text is a category of the other."""
    if first.type != second.type:
        raise PrivotError(
            f"{first.text!r} is {first.noun} and {second.text!r} is {second.noun}, {use}: use two of "
            "a type (a text that is no column is a category; put others in quotes)"
        )
    for term, other in ((first, second), (second, first)):
        listed, text = term.listed, other.literal
        if listed is not None and text is not None and text not in listed:
            raise PrivotError(
                f"{text!r} is no column, and none of the categories of {term.text!r}: use one "
                f"of {', '.join(listed[:8])}"
            )


def _term_values(values: pa.ChunkedArray, kind: Type) -> Any:
    """Convert a table's values to those of a term of type `kind`."""
    if kind != "date":
        return values.cast(_ARROW[kind])
    seconds = values.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64())
    return pc.divide(seconds, 1e6 * _DAY)


def to_timestamps(days: Any) -> pa.Array:
    """Convert days since 1970 to timestamps in seconds."""
    return pc.round(pc.multiply(days, _DAY)).cast(pa.int64()).cast(pa.timestamp("s"))


_ZERO = constant("number", 0.0, "0")
_CONSTANTS = {
    "true": constant("truth", True, "true"),
    "false": constant("truth", False, "false"),
    "missing": Term("missing", lambda table: None, text="missing"),
}


def read_rule(text: str, columns: Mapping[str, Term]) -> tuple[str | None, Term]:
    """Parse a rule; return (the column that it defines or None, its value or condition).

    Arguments:
        text: The rule.
        columns: Terms of the columns that it may name.

    Examples:
        >>> read_rule("a = 1 + 2 * 3", {"a": column_term("a", "number", None)})[0]
        'a'

    Raises:
        PrivotError: naming the rule and the invalid word.
    """
    try:
        tokens = _tokens(text)
        first = tokens[0][1] if tokens and tokens[0][0] in ("name", "column") else ""
        defines = first in columns and tokens[1:2] == [("sign", "=")]
        parser = _Parser(tokens[2:] if defines else tokens, columns)
        term = parser.value()
        if parser.next is not None:
            raise PrivotError(f"{parser.next[1]!r} is not expected there")
    except PrivotError as error:
        raise PrivotError(f"rule {text!r}: {error}") from None
    return (first if defines else None), term


def _tokens(text: str) -> list[Token]:
    """Split a rule into its tokens; raise PrivotError where none can be read."""
    tokens, at, text = [], 0, text.strip()
    if len(text) > _MAX_LETTERS:
        raise PrivotError(f"it has {len(text):,} letters, more than {_MAX_LETTERS:,}: divide it")
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise PrivotError(f"{text[at:][:12]!r} cannot be read")
        kind = str(match.lastgroup)
        word = "=" if match[kind] == "==" else match[kind]
        tokens.append(("text" if kind == "single" else kind, word))
        at = match.end()
    return tokens


class _Parser:
    """Recursive-descent parser of the tokens of one rule; each method parses one form of a value."""

    def __init__(self, tokens: list[Token], columns: Mapping[str, Term]) -> None:
        self._tokens, self._columns, self._at, self._depth = tokens, columns, 0, 0

    @property
    def next(self) -> Token | None:
        """The next token; None at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *words: str) -> str | None:
        """Consume and return the next word or sign if it is one of `words`, else return None."""
        if self.next is None or self.next[0] not in ("name", "sign") or self.next[1] not in words:
            return None
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _expect(self, word: str) -> None:
        """Consume the next word or sign; raise PrivotError unless it is `word`."""
        if not self._take(word):
            actual = repr(self.next[1]) if self.next else "its end"
            raise PrivotError(f"{word!r} is expected before {actual}")

    def value(self) -> Term:
        """Parse a value of the grammar."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise PrivotError(f"it is nested more than {_MAX_DEPTH} deep: divide it")
        term = self._parse_conditional() if self._take("if") else self._parse_disjunction()
        self._depth -= 1
        return term

    def _parse_conditional(self) -> Term:
        condition = self.value()
        self._expect("then")
        outcome = self.value()
        if self._take("else"):
            return _conditional(condition, outcome, self.value())
        return _connective(_negation(condition), "or", outcome)

    def _parse_joined(
        self,
        signs: tuple[str, ...],
        operand: Callable[[], Term],
        join: Callable[[Term, str, Term], Term],
    ) -> Term:
        """Parse operands with operators of one precedence between them, from left to right."""
        term = operand()
        while sign := self._take(*signs):
            term = join(term, sign, operand())
        return term

    def _parse_disjunction(self) -> Term:
        return self._parse_joined(("or",), self._parse_conjunction, _connective)

    def _parse_conjunction(self) -> Term:
        return self._parse_joined(("and",), self._parse_comparison, _connective)

    def _parse_comparison(self) -> Term:
        if self._take("not"):
            return _negation(self._parse_comparison())
        first = self._parse_sum()
        if self._take("not"):
            self._expect("in")
            return _negation(self._parse_one_of(first))
        if self._take("in"):
            return self._parse_one_of(first)
        chain = None
        while sign := self._take(*_COMPARISONS):
            second = self._parse_sum()
            comparison = _comparison(first, sign, second)
            chain = comparison if chain is None else _connective(chain, "and", comparison)
            first = second
        return chain or first

    def _parse_one_of(self, first: Term) -> Term:
        self._expect("(")
        term = _comparison(first, "=", self._parse_sum())
        while self._take(","):
            term = _connective(term, "or", _comparison(first, "=", self._parse_sum()))
        self._expect(")")
        return term

    def _parse_sum(self) -> Term:
        return self._parse_joined(("+", "-"), self._parse_product, _arithmetic)

    def _parse_product(self) -> Term:
        return self._parse_joined(("*", "/"), self._parse_single, _arithmetic)

    def _parse_single(self) -> Term:
        """Parse one operand, perhaps with minus signs or in parentheses."""
        minus_signs = 0
        while self._take("-"):
            minus_signs += 1
        if self._take("("):
            term = self.value()
            self._expect(")")
        else:
            term = self._parse_word()
        return _arithmetic(_ZERO, "-", term) if minus_signs % 2 else term

    def _parse_word(self) -> Term:
        if self.next is None:
            raise PrivotError("it ends where a value is expected")
        kind, word = self.next
        if kind == "sign" or (kind == "name" and word in _WORDS):
            raise PrivotError(f"{word!r} stands where a value is expected")
        self._at += 1
        if kind == "column" and word not in self._columns:
            raise PrivotError(f"column {word!r} is not one of {', '.join(self._columns)}")
        if kind in ("name", "column") and word in self._columns:
            return self._columns[word]
        if kind == "number":
            return constant("number", float(word), word)
        if kind == "date":
            return date_constant(word)
        if kind == "name" and word in _CONSTANTS:
            return _CONSTANTS[word]
        return constant("text", word, word)


@dataclass(frozen=True, eq=False)
class Rules:
    """Parsed rules of a schema."""

    columns: Mapping[str, Column]  # all declared columns, by name
    # Values of the columns that rules define, in an order in which they can be computed.
    defined: Mapping[str, Term]
    conditions: Mapping[str, Term]  # conditions, by the text of their rule

    @classmethod
    def of(cls, texts: tuple[str, ...], columns: Mapping[str, Column]) -> Self:
        """Parse the rules.

        Raises:
            PrivotError: naming an invalid rule.
        """
        column_terms = _all_terms(columns)
        defined: dict[str, tuple[str, Term]] = {}  # text and value by column
        conditions = {}
        for text in texts:
            name, term = read_rule(text, column_terms)
            if not term.columns:
                raise PrivotError(f"rule {text!r} depends on no column: name one as declared")
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
                _require_value(text, column_terms[name], term)
                defined[name] = text, term
        return cls(columns, _ordered(defined), conditions)

    def condition(self, text: str) -> Term:
        """Parse an additional condition on the records of one sample.

        Raises:
            PrivotError: naming the invalid word.
        """
        _, term = read_rule(text, _all_terms(self.columns))
        return term

    def complete(self, table: pa.Table) -> tuple[pa.Table, dict[str, Mask]]:
        """Return (the table with the defined columns, the mask (n,) of rows that break each rule)."""
        broken = {}
        for name, term in self.defined.items():
            column, invalid = _computed_column(name, self.columns[name], term, table)
            table = table.append_column(name, column)
            broken[f"{name} = … within its declaration"] = invalid
        for text, term in self.conditions.items():
            holds = pc.fill_null(term.values(table), True)
            broken[text] = ~np.asarray(holds.to_numpy(zero_copy_only=False), np.bool_)
        return table, broken


def _all_terms(columns: Mapping[str, Column]) -> dict[str, Term]:
    """Return the terms of all table columns that rules may name, by name."""
    terms: dict[str, Term] = {}
    for name, column in columns.items():
        listed, kind = None, column.in_rules
        if kind == "text" and column.alphabet is not None:
            listed = column.alphabet.labels[: column.alphabet.size - column.nullable]
        if kind is not None:
            parts = column.table_columns(name)
            terms |= {part: column_term(part, kind, listed) for part in parts}
    return terms


def _require_value(text: str, column: Term, term: Term) -> None:
    """Raise PrivotError if the column that a rule defines cannot contain the rule's value."""
    if term.type not in (column.type, "missing"):
        raise PrivotError(
            f"rule {text!r} defines a {column.type} by a {term.type}: correct it; a condition on a "
            "column stands in parentheses"
        )
    possible = term.listed or (() if term.literal is None else (term.literal,))
    unlisted = [value for value in possible if value not in (column.listed or possible)]
    if unlisted:
        raise PrivotError(
            f"rule {text!r} says {unlisted[0]!r}, which is none of the categories of "
            f"{column.text!r}: declare it there, or correct the rule"
        )


def _ordered(defined: Mapping[str, tuple[str, Term]]) -> dict[str, Term]:
    """Order definitions so that each depends only on earlier ones."""
    remaining = dict(defined)
    ordered: dict[str, Term] = {}
    while remaining:
        needed = {name: term.columns & remaining.keys() for name, (_, term) in remaining.items()}
        ready = [name for name in remaining if not needed[name]]
        if not ready:
            text = next(iter(remaining.values()))[0]
            raise PrivotError(f"rule {text!r} defines a column by itself: begin with others")
        ordered |= {name: remaining.pop(name)[1] for name in ready}
    return ordered


def _computed_column(name: str, column: Column, term: Term, table: pa.Table) -> tuple[Any, Mask]:
    """Return (table values of a defined column, mask (n,) of the rows outside its declaration)."""
    values = term.values(table)
    if term.type == "date":
        values = to_timestamps(values)
    read, problems = column.read(name, pa.table({name: values}))
    invalid = np.zeros(table.num_rows, np.bool_)
    for problem in problems:
        invalid |= problem.rows
    if column.domain is None:
        decoded = cast(CodedColumn, column).decode_codes(name, read, np.random.default_rng(0))
    else:
        numbers = cast(NumberColumn, column)
        (low,), (high,) = numbers.domain.lower, numbers.domain.upper
        slack = _ROUNDING * max(abs(low), abs(high), 1.0)
        invalid |= (read < low - slack) | (read > high + slack)
        decoded = numbers.decode_points(name, read[:, None])
    return decoded[name], invalid

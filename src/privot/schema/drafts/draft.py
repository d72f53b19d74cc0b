"""A draft of a schema: TOML that a person reads, completes and keeps.

What a source does not say (bounds, categories) is a comment in its place, so that a schema is refused
until somebody who knows has declared it. Nothing here looks at data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from privot.errors import PrivotError

PUBLIC = "public knowledge, never computed from the data"
NO_DATES = f'# bounds = ["2000-01-01", "2030-12-31"]  # first and last: {PUBLIC}'
NULLABLE = "# nullable = true  # if it may be missing"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class DraftColumn:
    """What is known of a column.

    Arguments:
        name: Its name.
        fields: As a schema has them; empty of a column that is left out.
        left: Lines of comments: what is left to declare, or why the column is left out.
    """

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    left: Sequence[str] = ()


def write_draft(
    columns: Iterable[DraftColumn], head: Sequence[str] = (), rules: Sequence[str] = ()
) -> str:
    """The draft as TOML.

    Examples:
        >>> print(write_draft([DraftColumn("age", {"kind": "numeric", "bounds": [17, 90]})]))
        unit = "person"  # whom one record belongs to: a person must not have two
        <BLANKLINE>
        [columns.age]
        kind = "numeric"
        bounds = [17, 90]
        <BLANKLINE>
    """
    lines = [*(f"# {line}" for line in head)]
    lines.append('unit = "person"  # whom one record belongs to: a person must not have two')
    if rules:
        lines += ["rules = [", *(f"    {quoted(rule)}," for rule in rules), "]"]
    for column in columns:
        if column.fields:
            lines += ["", f"[columns.{_key(column.name)}]"]
            lines += [f"{_key(name)} = {_value(value)}" for name, value in column.fields.items()]
            lines += column.left
        else:
            lines += ["", f"# {quoted(column.name)} is left out: {'; '.join(column.left)}"]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return quoted(value)
    return f"{value:.17g}" if isinstance(value, float) and value != int(value) else str(int(value))


def _key(name: str) -> str:
    """A name as a key of TOML."""
    return name if _BARE_KEY.fullmatch(name) else quoted(name)


def quoted(text: str) -> str:
    """A TOML basic string, on one line whatever the text holds."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PrivotError(f"the draft has the text {text!r}, which is not Unicode") from None
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04X}", escaped) + '"'

r"""A column in a line, for `privot schema new --columns`.

```
NAME:KIND[LOW,HIGH]?:OPTION:…
```

| line | column |
|---|---|
| `age:int[17,90]` | integers between public bounds |
| `weight:number[0,200]:decimals=1:unit=kg` | numbers of one decimal |
| `paid:money[1,20000]:log` | two decimals, on a log scale |
| `came:date[2020-01-01,2024-12-31]` | dates; `time[…]` to the second, or `:resolution=hour` |
| `sex:F\|M` | categories; one that ends with * stands for what is not listed: `north\|south\|other*` |
| `owner:bool?` | yes or no; the question mark: it may be missing |
| `patient:id(P-\d{6})` | identifiers that samples make up, never reported |

Options are `log`, or a field of the kind and its value: `bins=5`, `bins=0;10;50`, `spikes=0;40`,
`step=0.5`. Bounds are public knowledge; nothing here looks at data.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Any

from privot.errors import PrivotError
from privot.schema.drafts.draft import DraftColumn

_LINE = re.compile(r"(?P<name>[^:]+):(?P<kind>.+)", re.DOTALL)
_BOUNDED = re.compile(
    r"(?P<kind>[a-z]+)\[(?P<low>[^,\]]+),(?P<high>[^,\]]+)\](?P<rest>.*)", re.DOTALL
)
_IDENTIFIER = re.compile(r"id\((?P<pattern>.+)\)")
_KINDS: dict[str, dict[str, Any]] = {
    "int": {"kind": "numeric", "integer": True},
    "number": {"kind": "numeric"},
    "money": {"kind": "numeric", "decimals": 2},
    "date": {"kind": "datetime"},
    "time": {"kind": "datetime", "resolution": "second"},
}
_WORDS = {"unit": "measured_in"}


def read_declaration(line: str) -> DraftColumn:
    """The column that a line declares.

    Examples:
        >>> read_declaration("age:int[17,90]?:bins=4").fields
        {'kind': 'numeric', 'integer': True, 'bounds': [17, 90], 'bins': 4, 'nullable': True}
        >>> read_declaration("region:north|south|other*").fields
        {'kind': 'categorical', 'categories': ['north', 'south'], 'other': 'other'}

    Raises:
        PrivotError: naming the line and what to write.
    """
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise _refused(line)
    name, text = found["name"].strip(), found["kind"].strip()
    identifier = _IDENTIFIER.fullmatch(text)
    if identifier:
        return DraftColumn(name, {"kind": "identifier", "pattern": identifier["pattern"]})
    bounded = _BOUNDED.fullmatch(text)
    if bounded:
        if bounded["kind"] not in _KINDS:
            raise _refused(line)
        ends = [_plain(bounded["low"]), _plain(bounded["high"])]
        fields = _KINDS[bounded["kind"]] | {"bounds": ends}
        rest = bounded["rest"].strip()
    else:
        listed, colon, rest = text.partition(":")
        fields = _categories(listed.removesuffix("?").strip(), line)
        rest = "?" * listed.endswith("?") + colon + rest
    nullable = rest.startswith("?")
    options = rest.removeprefix("?").strip()
    if options and not options.startswith(":"):
        raise _refused(line)
    for option in filter(None, map(str.strip, options.split(":"))):
        fields |= _option(option)
    return DraftColumn(name, fields | ({"nullable": True} if nullable else {}))


def _categories(listed: str, line: str) -> dict[str, Any]:
    if listed in ("bool", "yes|no"):
        return {"kind": "boolean"}
    names = [name.strip() for name in listed.split("|")]
    other = [name for name in names if name.endswith("*")]
    if len(names) < 2 or not all(names) or len(other) > 1:
        raise _refused(line)
    fields: dict[str, Any] = {"kind": "categorical"}
    fields["categories"] = [name for name in names if name not in other]
    return fields | ({"other": other[0].removesuffix("*")} if other else {})


def _option(option: str) -> dict[str, Any]:
    if option == "log":
        return {"scale": "log"}
    name, equals, value = option.partition("=")
    name = _WORDS.get(name, name)
    if not equals:
        raise PrivotError(f"option {option!r} says no value: write {option}=VALUE, or log")
    several = ";" in value or name == "spikes"
    return {name: [*map(_plain, value.split(";"))] if several else _plain(value)}


def _plain(text: str) -> int | float | str:
    text = text.strip()
    for kind in (int, float):
        with suppress(ValueError):
            if math.isfinite(number := kind(text)):
                return number
    return text


def _refused(line: str) -> PrivotError:
    return PrivotError(
        f"column {line!r} cannot be read: write it as age:int[17,90], paid:money[1,20000]:log, "
        "came:date[2020-01-01,2024-12-31], sex:F|M, owner:bool? or patient:id(P-\\d{6})"
    )

"""A draft from a JSON Schema, and so from a pydantic model, which is one.

`minimum` and `maximum` are bounds, `multipleOf` a step, `enum` and `const` categories, the formats
`date` and `date-time` dates, `null` among the types or values one that may be missing. A plain `pattern`
makes an identifier. Other texts are left out, and what may be of several types.

References:
    JSON Schema, *A vocabulary for structural validation of JSON*, draft 2020-12.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from privot.core.errors import PrivotError
from privot.schema.columns.identifier import IdentifierColumn
from privot.schema.drafts import DATE_BOUNDS, NULLABLE, PUBLIC, DraftColumn

_MOST_REFERENCES = 20


def columns_of(document: Mapping[str, Any]) -> list[DraftColumn]:
    """The columns of an object's properties.

    Examples:
        >>> age = {"type": "integer", "minimum": 0, "maximum": 99}
        >>> columns_of({"properties": {"age": age}})[0].fields
        {'kind': 'numeric', 'integer': True, 'bounds': [0, 99]}

    Raises:
        PrivotError: if it describes no object.
    """
    properties = document.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        raise PrivotError(
            "the JSON Schema has no properties: give that of an object with one a column"
        )
    return [_column(str(name), _resolved(each, document)) for name, each in properties.items()]


def _resolved(each: Any, document: Mapping[str, Any]) -> dict[str, Any]:
    """A property without references; `nullable` where it may be null, `anyOf` where it is several."""
    found: dict[str, Any] = dict(each) if isinstance(each, Mapping) else {}
    for _ in range(_MOST_REFERENCES):
        options = found.pop("anyOf", None) or found.pop("oneOf", None)
        together, reference = found.pop("allOf", None), found.pop("$ref", None)
        if isinstance(options, list):
            others = [
                one for one in options if isinstance(one, Mapping) and one.get("type") != "null"
            ]
            found["nullable"] = found.get("nullable", False) or len(others) < len(options)
            found |= dict(others[0]) if len(others) == 1 else {"several": True}
        elif isinstance(together, list):
            for one in together:
                found |= one if isinstance(one, Mapping) else {}
        elif isinstance(reference, str) and reference.startswith("#/"):
            target: Any = document
            for part in reference[2:].split("/"):
                target = target.get(part, {}) if isinstance(target, Mapping) else {}
            found |= target if isinstance(target, Mapping) else {}
        else:
            break
    kinds = found.get("type")
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        found["nullable"] = found.get("nullable", False) or "null" in kinds
        found |= {"type": others[0]} if len(others) == 1 else {"several": True}
    return found


def _column(name: str, found: Mapping[str, Any]) -> DraftColumn:
    if found.get("several"):
        return DraftColumn(name, {}, ["it is of several kinds: declare one that holds them all"])
    listed = found.get("enum", [found["const"]] if "const" in found else None)
    values = [one for one in listed if one is not None] if isinstance(listed, list) else []
    absent = isinstance(listed, list) and len(values) < len(listed)
    nullable = {"nullable": True} if found.get("nullable") or absent else {}
    left = () if nullable else (NULLABLE,)
    truths = bool(values) and all(isinstance(one, bool) for one in values)
    if values and not truths:
        return DraftColumn(
            name, {"kind": "categorical", "categories": [*map(str, values)]} | nullable, left
        )
    kind = found.get("type")
    if kind == "boolean" or truths:
        return DraftColumn(name, {"kind": "boolean"} | nullable, left)
    if kind in ("integer", "number"):
        return numeric(
            name, kind == "integer", *_bounds(found), found.get("multipleOf"), bool(nullable)
        )
    if found.get("format") in ("date", "date-time"):
        fields = {"kind": "datetime"} | (
            {} if found["format"] == "date" else {"resolution": "second"}
        )
        return DraftColumn(name, fields | nullable, (DATE_BOUNDS, *left))
    return _text(name, found)


def numeric(
    name: str,
    integer: bool,
    low: float | None,
    high: float | None,
    step: float | None,
    nullable: bool,
) -> DraftColumn:
    """A column of numbers, whose bounds are left to declare where one is not known."""
    fields: dict[str, Any] = {"kind": "numeric"} | ({"integer": True} if integer else {})
    left: list[str] = []
    if low is None or high is None:
        known = f"[{0 if low is None else low:g}, {100 if high is None else high:g}]"
        left.append(f"# bounds = {known}  # smallest and largest: {PUBLIC}")
    else:
        fields["bounds"] = [low, high]
    if step is not None and (step != 1 or not integer):
        fields["step"] = step
    if nullable:
        return DraftColumn(name, fields | {"nullable": True}, left)
    return DraftColumn(name, fields, [*left, NULLABLE])


def _bounds(found: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The least and the largest number that are allowed, of integers; else where they end."""
    inside = 1 if found.get("type") == "integer" else 0
    low, high = _number(found.get("minimum")), _number(found.get("maximum"))
    above, below = _number(found.get("exclusiveMinimum")), _number(found.get("exclusiveMaximum"))
    if above is not None and (low is None or above + inside > low):
        low = above + inside
    if below is not None and (high is None or below - inside < high):
        high = below - inside
    return low, high


def _number(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and math.isfinite(value) else None


def _text(name: str, found: Mapping[str, Any]) -> DraftColumn:
    pattern = str(found.get("pattern", "")).removeprefix("^").removesuffix("$")
    try:
        identifier = IdentifierColumn(kind="identifier", pattern=pattern)
    except ValidationError:
        why = f"type {found.get('type')!r}: text cannot be learned; a category that sums it up can"
        return DraftColumn(name, {}, [why])
    return DraftColumn(name, {"kind": "identifier", "pattern": identifier.pattern})

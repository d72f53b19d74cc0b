"""A draft from a pandera schema, which is read as it stands: pandera need not be installed to read this.

Of a `DataFrameSchema`, or a `DataFrameModel` by its `to_schema()`: each column's dtype, whether it is
nullable, and the checks `isin`, `in_range`, `greater_than_or_equal_to`, `less_than_or_equal_to` and
their strict forms. Other checks are code, and are named in a comment.

References:
    pandera documentation, *Checks* and *DataFrameSchema*.
"""

from __future__ import annotations

from typing import Any

from privot.core.errors import PrivotError
from privot.schema.drafts import DATE_BOUNDS, NULLABLE, PUBLIC, DraftColumn
from studies.schema_drafts.json_schema import numeric

_LOW = {"in_range", "greater_than_or_equal_to", "greater_than"}
_HIGH = {"in_range", "less_than_or_equal_to", "less_than"}


def is_pandera(found: Any) -> bool:
    """Whether it looks like a pandera schema, or a model of one."""
    return hasattr(found, "to_schema") or (hasattr(found, "columns") and hasattr(found, "checks"))


def columns_of(found: Any) -> list[DraftColumn]:
    """The columns of a schema or a model."""
    schema = found.to_schema() if hasattr(found, "to_schema") else found
    if not getattr(schema, "columns", None):
        raise PrivotError(
            "the pandera schema has no columns: give a DataFrameSchema or DataFrameModel"
        )
    return [_column(str(name), column) for name, column in schema.columns.items()]


def _column(name: str, column: Any) -> DraftColumn:
    checks = {check.name: dict(check.statistics or {}) for check in column.checks or ()}
    nullable = {"nullable": True} if column.nullable else {}
    left = [] if nullable else [NULLABLE]
    known = {"isin", *_LOW, *_HIGH}
    left += [f"# pandera checks {check!r} as well" for check in checks if check not in known]
    dtype = str(column.dtype).lower()
    if "isin" in checks:
        names = sorted(map(str, checks["isin"]["allowed_values"]))
        return DraftColumn(name, {"kind": "categorical", "categories": names} | nullable, left)
    if "bool" in dtype:
        return DraftColumn(name, {"kind": "boolean"} | nullable, left)
    if "date" in dtype:
        days = {} if dtype == "date" else {"resolution": "second"}
        return DraftColumn(name, {"kind": "datetime"} | days | nullable, [DATE_BOUNDS, *left])
    integer = "int" in dtype
    if integer or "float" in dtype:
        low, high = _limit(checks, _LOW, "min_value"), _limit(checks, _HIGH, "max_value")
        low = low if low is None else low + (integer and "greater_than" in checks)
        high = high if high is None else high - (integer and "less_than" in checks)
        return numeric(name, integer, low, high, None, bool(nullable))
    if "category" in dtype:
        listed = f'# categories = ["a", "b"]  # all of them: {PUBLIC}'
        return DraftColumn(name, {"kind": "categorical"} | nullable, [listed, *left])
    return DraftColumn(name, {}, [f"dtype {dtype!r}: text cannot be learned; a category can"])


def _limit(checks: dict[str, dict[str, Any]], names: set[str], value: str) -> float | None:
    found = [fields[value] for name, fields in checks.items() if name in names and value in fields]
    return found[0] if found else None

"""Which record map a schema has: of labeled images, or of rows of a table."""

from __future__ import annotations

from typing import Any

from privot.schema import Schema
from privot.sliced.images import ImageRecords
from privot.sliced.records import Records
from privot.sliced.tables import TableRecords


def records_of(schema: Schema, degree: int = 2, **of_images: Any) -> Records:
    """The records of a schema, by features of a degree: labeled images if it declares any.

    Examples:
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> records_of(schema).schema == schema
        True
    """
    if schema.images:
        return ImageRecords(schema, degree=degree, **of_images)
    return TableRecords(schema, degree=degree)

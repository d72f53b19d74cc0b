"""What one record may be. Public, written by hand, never computed from data."""

from privot.core.errors import naming_extra

with naming_extra("privot.schema"):
    from privot.schema.columns.alphabet import Bins, Categories
    from privot.schema.columns.array import ArrayColumn
    from privot.schema.columns.categorical import BooleanColumn, CategoricalColumn
    from privot.schema.columns.column import CodedColumn, Column, PointColumn
    from privot.schema.columns.identifier import IdentifierColumn
    from privot.schema.columns.numeric import DatetimeColumn, NumericColumn
    from privot.schema.columns.vector import VectorColumn
    from privot.schema.domains import (
        Array,
        Box,
        Domain,
        L1Ball,
        L2Ball,
        Polyline,
        from_unit,
        to_unit,
    )
    from privot.schema.images import ImageDomain
    from privot.schema.schema import Schema

__all__ = [
    "Array",
    "ArrayColumn",
    "Bins",
    "BooleanColumn",
    "Box",
    "CategoricalColumn",
    "Categories",
    "CodedColumn",
    "Column",
    "DatetimeColumn",
    "Domain",
    "IdentifierColumn",
    "ImageDomain",
    "L1Ball",
    "L2Ball",
    "NumericColumn",
    "PointColumn",
    "Polyline",
    "Schema",
    "VectorColumn",
    "from_unit",
    "to_unit",
]

"""What one record may be. Public, written by hand, never computed from data."""

from privot.errors import naming_extra

with naming_extra("privot.schema"):
    from privot.schema.columns.alphabet import Bins, Categories
    from privot.schema.columns.array import ArrayColumn
    from privot.schema.columns.categorical import BooleanColumn, CategoricalColumn
    from privot.schema.columns.column import CodedColumn, Column, PointColumn
    from privot.schema.columns.datetime import DatetimeColumn
    from privot.schema.columns.identifier import IdentifierColumn
    from privot.schema.columns.numeric import NumericColumn
    from privot.schema.columns.vector import VectorColumn
    from privot.schema.domains.balls import L1Ball, L2Ball
    from privot.schema.domains.domain import Array, Box, Domain, from_unit, to_unit
    from privot.schema.domains.image import ImageDomain
    from privot.schema.domains.polyline import Polyline
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

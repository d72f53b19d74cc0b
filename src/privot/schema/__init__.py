"""What one record may be. Public, written by hand, never computed from data."""

from privot.schema.alphabet import Bins, Categories
from privot.schema.array_column import ArrayColumn
from privot.schema.columns import (
    BooleanColumn,
    CategoricalColumn,
    CodedColumn,
    Column,
    DatetimeColumn,
    NumericColumn,
    PointColumn,
    VectorColumn,
)
from privot.schema.domain import Box, Domain, L1Ball, L2Ball, from_unit, to_unit
from privot.schema.image_domain import ImageDomain
from privot.schema.polyline import Polyline
from privot.schema.schema import Schema

__all__ = [
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

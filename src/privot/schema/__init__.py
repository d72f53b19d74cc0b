"""What one record may be. Public, written by hand, never computed from data."""

from privot.schema.alphabet import Bins, Categories
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
from privot.schema.polyline import Polyline
from privot.schema.schema import Schema

__all__ = [
    "Bins",
    "BooleanColumn",
    "Box",
    "CategoricalColumn",
    "Categories",
    "CodedColumn",
    "Column",
    "DatetimeColumn",
    "Domain",
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

"""What one record may be. Public, written by hand, never computed from data."""

from privot.schema.columns import (
    CategoricalColumn,
    Column,
    ContinuousColumn,
    NumericColumn,
    VectorColumn,
)
from privot.schema.domain import Box, Domain, L1Ball, L2Ball, from_unit, to_unit
from privot.schema.polyline import Polyline
from privot.schema.schema import Schema

__all__ = [
    "Box",
    "CategoricalColumn",
    "Column",
    "ContinuousColumn",
    "Domain",
    "L1Ball",
    "L2Ball",
    "NumericColumn",
    "Polyline",
    "Schema",
    "VectorColumn",
    "from_unit",
    "to_unit",
]

"""Schemas: columns, domains and rules of one record; public, and never computed from data."""

from privot.core.errors import naming_extra

with naming_extra("privot.schema"):
    from privot.schema.columns.array import ArrayColumn
    from privot.schema.columns.categorical import BooleanColumn, CategoricalColumn
    from privot.schema.columns.column import Column
    from privot.schema.columns.identifier import IdentifierColumn
    from privot.schema.columns.numeric import DatetimeColumn, NumericColumn
    from privot.schema.columns.vector import VectorColumn
    from privot.schema.columns.word import WordColumn
    from privot.schema.domains import Box, Domain, L1Ball, L2Ball, Polyline
    from privot.schema.images import ImageDomain
    from privot.schema.schema import Schema

__all__ = [
    "ArrayColumn", "BooleanColumn", "Box", "CategoricalColumn", "Column", "DatetimeColumn",
    "Domain", "IdentifierColumn", "ImageDomain", "L1Ball", "L2Ball", "NumericColumn", "Polyline",
    "Schema", "VectorColumn", "WordColumn",
]  # fmt: skip

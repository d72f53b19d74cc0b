"""Columns: what one part of a record may be, and how its values are read."""

"""Columns: the values that one part of a record may have, and how they are read and reported."""

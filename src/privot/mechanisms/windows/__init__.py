"""Densities of two levels, high in a window around the record."""

"""Density of points with few coordinates on a grid, by penalized maximum likelihood."""

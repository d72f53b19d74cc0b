"""The density of points of few coordinates, on a grid, by penalized maximum likelihood."""

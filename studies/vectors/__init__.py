"""Vectors of many dimensions: what a mean of them costs under local privacy."""

"""Recipes of populations that move."""

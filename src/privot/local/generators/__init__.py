"""Generators trained by steps."""

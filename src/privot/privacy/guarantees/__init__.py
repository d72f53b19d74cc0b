"""Promises as types, in words and in figures."""

"""Exact integer noise from words that nobody can predict."""

"""Domains: where a point may lie, and how far two points may be apart."""

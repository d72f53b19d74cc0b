"""Densities that may not stray far from a public one."""

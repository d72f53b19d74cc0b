"""Entropic transport from locally private points and images: the papers' figures."""

"""Mixtures that a curator learns from noisy sums: of labeled images, of labeled vectors, of tables."""

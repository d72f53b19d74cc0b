"""Mixtures that a curator learns from a few rounds of noisy sums: labeled images, and tables."""

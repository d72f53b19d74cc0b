"""Noisy slices: images, adaptation, rivals and accounts."""

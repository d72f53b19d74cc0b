"""Latent classes of a table, by maximum likelihood."""

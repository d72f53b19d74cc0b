"""Generators trained with PyTorch: likelihoods of reports, the transport cost, and the fit."""

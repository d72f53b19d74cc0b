"""Generators trained by PyTorch: likelihoods of reports, the transport cost, the fit."""

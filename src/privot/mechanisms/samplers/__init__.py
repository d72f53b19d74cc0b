"""Exact samplers of integer noise, and the cryptographic random words that they use."""

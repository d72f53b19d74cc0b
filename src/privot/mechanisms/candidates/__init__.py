"""Seeded candidates: a report names one of many public random directions."""

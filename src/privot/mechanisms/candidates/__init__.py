"""Candidate reports: a report names one of many public random directions near the record."""

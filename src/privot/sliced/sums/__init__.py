"""Noisy sums of all records, round after round: the plan, and the only code that sees records for it."""

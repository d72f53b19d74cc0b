"""Integral privacy: how near its samples come, to what, and what that costs."""

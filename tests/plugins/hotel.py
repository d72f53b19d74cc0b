"""Guests of a hotel, whose ids and dates SDV and synthcity describe too."""

import numpy as np

from privot import Schema

SCHEMA = r"""
[columns.guest]
kind = "identifier"
pattern = 'G-\d{6}'
[columns.room]
kind = "categorical"
categories = ["basic", "suite"]
[columns.nights]
kind = "numeric"
bounds = [1, 14]
integer = true
[columns.came]
kind = "datetime"
bounds = ["2024-01-01", "2024-12-31"]
"""


def schema() -> Schema:
    return Schema.from_toml(SCHEMA)


def guests(pd, num_rows: int):
    """Suites for long stays only, and nobody before March."""
    rng = np.random.default_rng(0)
    nights = rng.integers(1, 15, num_rows)
    days = pd.to_timedelta(rng.integers(60, 300, num_rows), "D")
    return pd.DataFrame(
        {
            "guest": [f"G-{i:06d}" for i in range(num_rows)],
            "room": np.where(nights > 7, "suite", "basic"),
            "nights": nights,
            "came": pd.Timestamp("2024-01-01") + days,
        }
    )

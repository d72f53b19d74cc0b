"""Made-up hospital stays, skewed and with gaps, as the guide to tables begins with.

python examples/hospital.py stays.csv --people 30000
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

WARDS = ["medicine", "surgery", "maternity", "pediatrics", "intensive care", "eye clinic"]
DAYS = 86_400


def stays(people: int, seed: int) -> pa.Table:
    """One stay a patient: who, where, from when to when, at what cost."""
    rng = np.random.default_rng(seed)
    age = np.where(
        rng.random(people) < 0.15, rng.integers(0, 16, people), rng.normal(58, 18, people)
    )
    age = np.clip(age, 0, 100).astype(np.int64)
    female = rng.random(people) < 0.54
    ward = rng.choice(6, people, p=[0.46, 0.34, 0.0, 0.0, 0.12, 0.08])
    ward = np.where((rng.random(people) < 0.7) & female & (age > 17) & (age < 43), 2, ward)
    ward = np.where((rng.random(people) < 0.9) & (age < 16), 3, ward)
    # More are ill in winter.
    day = rng.integers(0, 366, 2 * people)
    day = day[rng.random(2 * people) < 0.65 + 0.35 * np.cos(2 * np.pi * day / 366)]
    day = np.resize(day, people)
    usual = np.array([4.0, 3.0, 2.0, 2.0, 9.0, 0.4])[ward] * (0.6 + age / 90)
    nights = np.minimum(rng.geometric(1 / (1 + usual)) - 1, 180)
    daily = np.array([900, 1600, 1100, 800, 3500, 1500])[ward]
    cost = daily * (nights + 1.0) * np.exp(rng.normal(0, 0.35, people))
    weight = np.where(age < 16, 4 + 3.2 * age, 68 + 10 * ~female) * np.exp(
        rng.normal(0, 0.16, people)
    )
    smokes = rng.random(people) < np.where(age < 16, 0.0, 0.28)
    admitted = np.datetime64("2024-01-01") + day
    return pa.table(
        {
            "patient": [f"P-{number:06d}" for number in rng.permutation(10**6)[:people]],
            "age": age,
            "sex": np.where(female, "F", "M"),
            "ward": np.array(WARDS)[ward],
            "admitted": pa.array(admitted.astype("datetime64[D]")),
            "nights": nights,
            "discharged": pa.array((admitted + nights).astype("datetime64[D]")),
            "cost": np.clip(cost, 50, 1e6).round(2),
            "weight": pa.array(weight.round(1), mask=rng.random(people) < 0.18),
            "smoker": pa.array(smokes, mask=rng.random(people) < 0.1),
        }
    )


def main() -> None:
    """Write the stays that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output")
    parser.add_argument("--people", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    pc.write_csv(stays(chosen.people, chosen.seed), chosen.output)


if __name__ == "__main__":
    main()

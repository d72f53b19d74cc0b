"""Made-up people of the walk-throughs: those of a health survey, of a city's trips, of an app.

python examples/made_up_people.py survey people.csv --people 12000
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

ZONES = ["harbor", "old town", "university", "hospital", "airport", "north", "south", "west"]


def survey(people: int, week: int, rng: np.random.Generator) -> dict[str, list]:
    """Age, sex, smoking, and low mood, which is rarer among the old and commoner among smokers."""
    age = np.clip(rng.normal(47, 18, people), 18, 95).astype(int)
    female = rng.random(people) < 0.51
    smokes = rng.random(people) < np.where(age < 65, 0.24, 0.10) - 0.04 * female
    often = 0.07 + 0.05 * smokes + 0.03 * (age < 35) + 0.03 * female
    drawn = rng.random(people)
    mood = np.where(drawn < often, "most days", np.where(drawn < 4 * often, "some days", "never"))
    return {
        "age": age.tolist(),
        "sex": np.where(female, "female", "male").tolist(),
        "smokes": smokes.tolist(),
        "low_mood": mood.tolist(),
    }


def trips(people: int, week: int, rng: np.random.Generator) -> dict[str, list]:
    """One trip of each person: from where, where to, when, and with which ticket."""
    shares = np.array([0.08, 0.22, 0.12, 0.05, 0.06, 0.19, 0.17, 0.11])
    start = rng.choice(len(ZONES), people, p=shares)
    pull = np.array([0.08, 0.33, 0.17, 0.10, 0.08, 0.09, 0.08, 0.07])
    end = np.where(rng.random(people) < 0.15, start, rng.choice(len(ZONES), people, p=pull))
    student = rng.random(people) < np.where((start == 2) | (end == 2), 0.55, 0.10)
    hour = np.where(
        rng.random(people) < 0.45, rng.normal(8, 1.2, people), rng.normal(16, 3, people)
    )
    ticket = np.where(student, "student", rng.choice(["month", "single"], people, p=[0.6, 0.4]))
    names = np.array(ZONES)
    return {
        "start": names[start].tolist(),
        "end": names[end].tolist(),
        "hour": np.clip(hour, 5, 23).astype(int).tolist(),
        "ticket": ticket.tolist(),
    }


def app(people: int, week: int, rng: np.random.Generator) -> dict[str, list]:
    """System, version, time to start, and the feature used most; version 3 spreads by the week."""
    new = rng.random(people) < 0.05 + 0.06 * week
    system = rng.choice(["android", "ios", "desktop"], people, p=[0.55, 0.3, 0.15])
    slow = np.where(new & (system == "android"), 2.4, 1.0)  # what nobody knows yet
    seconds = slow * rng.lognormal(0.3, 0.5, people)
    steps = np.array(["under 2 s", "2 to 4 s", "over 4 s"])
    uses = [rng.choice(["search", "share", "map", "chat"], people, p=p)
            for p in ((0.5, 0.2, 0.2, 0.1), (0.35, 0.2, 0.2, 0.25))]  # fmt: skip
    return {
        "system": system.tolist(),
        "version": np.where(new, "3", rng.choice(["1", "2"], people, p=[0.2, 0.8])).tolist(),
        "start": steps[np.digitize(seconds, [2, 4])].tolist(),
        "feature": np.where(new, uses[1], uses[0]).tolist(),
    }


def main() -> None:
    """Write a CSV."""
    kinds = {"survey": survey, "trips": trips, "app": app}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("output")
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--week", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng([given.seed, given.week])
    pc.write_csv(pa.table(kinds[given.kind](given.people, given.week, rng)), given.output)


if __name__ == "__main__":
    main()

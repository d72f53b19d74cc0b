"""What reports by strangers do to a fit: error beside that of the clean reports of the same people.

    python privot_benchmarks/strangers.py   # a table, about two minutes on an idle machine
    python privot_benchmarks/strangers.py --json   # the same for scripts

Of 100 000 reports, one in a hundred is not a person's report: half of these took the place of a person's
(places of 1e9, cells that do not exist), half are copies. All are written as they come, collected, and
fitted with the same seed as the clean ones. Errors are those of the clean records: the W2 distance of
places, the mean total variation of the pairs of columns of a table. Generators take 600 steps; a longer
fit changes both errors alike.

Leaving out m of n honest reports at random turns the error by a share of about √(m/n), 7 % here, in a
random direction, and makes it longer by m/2n, a quarter of a percent: so ratios of single seeds scatter
around 1 (of generators also because they see other batches), and the ratio of the mean errors over the
seeds is what tells. Tables take many seeds, for they are quick.
"""

import argparse
import json
import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from privot.collector import collect_files
from privot.demo.homes import SCHEMA_TOML, draw_people
from privot.evaluation import sample_distance
from privot.local import FitSettings, fit
from privot.randomizer import Randomizer, Release
from privot.randomizer.reports.rows import REPORT_ID, ReportTable, draw_ids
from privot.schema import Schema
from privot.schema.domains import to_unit

PEOPLE, STRANGERS = 100_000, 1_000
TABLE = """
[columns.age]
kind = "numeric"
bounds = [0, 80]
bins = 4
[columns.sex]
kind = "categorical"
categories = ["F", "M"]
[columns.region]
kind = "categorical"
categories = ["a", "b", "c", "d", "e"]
"""


def places(seed: int):
    """Home towns, and the W2 distance of what is learned of them, in unit coordinates."""
    schema = Schema.from_toml(SCHEMA_TOML)
    people = draw_people(PEOPLE, seed=seed)
    domain = schema.point_column("home").domain
    names = schema.columns["home"].table_columns("home")

    def points(table):
        return to_unit(domain, np.stack([table[name].to_numpy() for name in names], axis=1))

    def error(release: Release) -> float:
        drawn = fit(release, FitSettings(steps=600, seed=seed)).sample(30_000, seed=seed)
        return sample_distance(points(drawn), points(people))

    return Randomizer.calibrate(schema, 4.0), people, error


def table(seed: int):
    """A small table, and the mean total variation of the pairs of its columns."""
    rng = np.random.default_rng(seed)
    sex, region = rng.integers(0, 2, PEOPLE), rng.integers(0, 5, PEOPLE)
    age = np.clip(rng.normal(25 + 8 * region + 6 * sex, 10), 0, 79.9)
    people = pa.table(
        {
            "age": age,
            "sex": pa.array(["F", "M"]).take(sex),
            "region": pa.array([*"abcde"]).take(region),
        }
    )
    schema = Schema.from_toml(TABLE)

    def shares(rows, pair):
        grouped = rows.select(pair).group_by(pair).aggregate([([], "count_all")])
        counts = grouped.to_pydict()
        keys = zip(*(counts[name] for name in pair), strict=True)
        return dict(zip(keys, np.array(counts["count_all"]) / rows.num_rows, strict=True))

    labels = schema.coded["age"].labels
    binned = np.minimum(age // 20, 3).astype(int)
    truth = people.set_column(0, "age", pa.array(labels).take(binned))

    def error(release: Release) -> float:
        drawn = fit(release, seed=seed).sample(1_000_000, seed=seed)
        if not pa.types.is_string(drawn["age"].type):
            bins = np.minimum(drawn["age"].to_numpy() // 20, 3).astype(int)
            drawn = drawn.set_column(
                drawn.column_names.index("age"), "age", pa.array(labels).take(bins)
            )
        errors = []
        for pair in combinations(["age", "sex", "region"], 2):
            learned, real = shares(drawn, list(pair)), shares(truth, list(pair))
            cells = learned.keys() | real.keys()
            errors.append(sum(abs(learned.get(c, 0) - real.get(c, 0)) for c in cells) / 2)
        return float(np.mean(errors))

    return Randomizer.calibrate(schema, 4.0), people, error


def with_strangers(release: Release, seed: int) -> Release:
    """The reports as they arrive: some replaced by what no device sends, some again."""
    rows, half = release.table, STRANGERS // 2
    rng = np.random.default_rng(seed)
    lying = rng.permutation(rows.num_rows)[:half]
    bad = rows.take(pa.array(lying))
    for number, name in enumerate(bad.column_names):
        kind = bad.schema.field(name).type
        if pa.types.is_floating(kind):
            bad = bad.set_column(number, name, pa.array(np.full(half, 1e9), kind))
        elif pa.types.is_list(kind):
            bad = bad.set_column(number, name, pa.array([[10**6]] * half, kind))
        elif name == REPORT_ID:
            bad = bad.set_column(number, name, draw_ids(half))
    kept = rows.filter(pa.array(~np.isin(np.arange(rows.num_rows), lying)))
    again = kept.take(pa.array(rng.permutation(kept.num_rows)[:half]))
    return Release(ReportTable.of(kept, bad, again), release.randomizer)


def measure(make, seed: int) -> dict[str, float]:
    """Both errors, and what was found."""
    randomizer, people, error = make(seed)
    release = randomizer.privatize(people)
    with tempfile.TemporaryDirectory() as folder:
        honest, received, counted = (Path(folder) / f"{n}.parquet" for n in range(3))
        release.save(honest)
        with_strangers(release, seed).save(received)
        done = collect_files([received], counted)
        clean, sullied = error(Release.load(honest)), error(Release.load(counted))
    return {
        "data": make.__name__,
        "seed": seed,
        "quarantined": done.quarantined,
        "copies": done.copies,
        "clean": round(clean, 4),
        "with_strangers": round(sullied, 4),
        "ratio": round(sullied / clean, 3),
    }


def main() -> None:
    """All seeds of each, one line each, and the ratio of the mean errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for make, seeds in ((places, 6), (table, 20)):
        own = [measure(make, seed) for seed in range(seeds)]
        rows += own
        if not options.json:
            for row in own:
                print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
            clean, sullied = ([row[name] for row in own] for name in ("clean", "with_strangers"))
            ratio = np.mean(sullied) / np.mean(clean)
            spread = np.std(np.subtract(sullied, clean)) / np.mean(clean) / np.sqrt(seeds - 1)
            print(
                f"{make.__name__}: ratio of the mean errors {ratio:.3f} ± {spread:.3f}", flush=True
            )
    if options.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()

"""Split reports: who reports what is fresh coins, and nothing else is left in the table."""

import numpy as np
from scipy import stats

from privot.release import Randomizer
from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.home]
kind = "vector"
columns = ["longitude", "latitude"]
bounds = [[-8.7, 1.8], [49.8, 60.9]]
[columns.age]
kind = "numeric"
bounds = [17, 90]
[columns.sex]
kind = "categorical"
categories = ["Female", "Male"]
""")


def people(num=1000, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "longitude": rng.uniform(-8, 1, num),
        "latitude": rng.uniform(50, 60, num),
        "age": rng.integers(17, 90, num),
        "sex": rng.choice(["Female", "Male"], num),
    }


def test_reported_columns_are_uniform_and_independent_of_the_record():
    schema = Schema.from_toml(
        "\n".join(f'[columns.c{i}]\nkind = "numeric"\nbounds = [0, 1]' for i in range(4))
    )
    num = 60_000
    table = {f"c{i}": np.repeat([0.0, 1.0], num // 2) for i in range(4)}
    release = Randomizer.calibrate(schema, 4.0, report_columns=2, report="split").privatize(table)
    masks = np.stack([release.reports(f"c{i}")[1] for i in range(4)], axis=1)
    assert (masks.sum(1) == 2).all()
    subsets = masks @ (1 << np.arange(4))
    counts = [
        np.bincount(part, minlength=16) for part in (subsets[: num // 2], subsets[num // 2 :])
    ]
    seen = [c[c > 0] for c in counts]
    assert stats.chisquare(seen[0] + seen[1]).pvalue > 1e-6
    assert stats.chi2_contingency(np.stack(seen)).pvalue > 1e-6


def test_nothing_is_left_in_memory_under_a_null():
    """Arrow keeps a number beneath every null: of a column not reported, it must be no report."""
    release = Randomizer.calibrate(SCHEMA, 3.0, report_columns=1, report="split").privatize(
        people(500)
    )
    for name in ("longitude", "latitude", "age"):
        column = release.table[name].combine_chunks()
        beneath = np.frombuffer(column.buffers()[1], np.float64)[: len(column)]
        absent = column.is_null().to_numpy(zero_copy_only=False)
        assert 100 < absent.sum() < 500
        assert (beneath[absent] == 0).all()
        assert (beneath[~absent] != 0).all()


def test_reports_return_to_the_grid_they_were_drawn_on():
    """Through the table's units and back: every report has a likelihood."""
    schema = Schema.from_toml(
        "\n".join(
            f'[columns.c{i}]\nkind = "numeric"\nbounds = {bounds}'
            for i, bounds in enumerate(([0.1, 0.37], [-3, 100000.1], [1e6, 1e6 + 1]))
        )
    )
    raw = {"c0": [0.2] * 500, "c1": [5.0] * 500, "c2": [1e6] * 500}
    release = Randomizer.calibrate(schema, 3.0, report="split").privatize(raw)
    for name, mechanism in release.randomizer.mechanisms.items():
        reports, _ = release.reports(name)
        assert np.isfinite(mechanism.log_likelihood(reports, np.zeros((1, 1)))).all()

"""Reports of places and of tables, and the same with values that a stranger put there."""

import numpy as np
import pyarrow as pa

from privot import Randomizer, Release, Schema
from privot.randomizer.reports.rows import ReportTable

HOME = '[columns.home]\nkind = "vector"\ncolumns = ["x", "y"]\nradius = 1.0\n'


TABLE = """
[columns.age]
kind = "numeric"
bounds = [0, 100]
[columns.sex]
kind = "categorical"
categories = ["F", "M", "X"]
[columns.owner]
kind = "boolean"
nullable = true
"""


def homes(num=400, mechanism=None, **options):
    schema = Schema.from_toml(HOME)
    delta = 1e-6 if mechanism == "gaussian" else 0.0
    randomizer = Randomizer.calibrate(schema, 2.0, delta, mechanism=mechanism)
    angle = np.random.default_rng(0).uniform(0, 6, num)
    return randomizer.privatize({"x": np.cos(angle), "y": np.sin(angle)}, **options)


def answers(num=400, report="joint", **options):
    randomizer = Randomizer.calibrate(Schema.from_toml(TABLE), 3.0, report=report, **options)
    rng = np.random.default_rng(0)
    ages, owners = rng.uniform(0, 100, num), rng.choice([True, False, None], num)
    return randomizer.privatize({"age": ages, "sex": rng.choice([*"FMX"], num), "owner": owners})


def changed(release, **columns):
    """The release with other values in some columns, by row."""
    table = release.table
    for name, values in columns.items():
        held = table[name].to_pylist()
        for row, value in values.items():
            held[row] = value
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(held, table.schema.field(name).type))
    return Release(ReportTable.of(table), release.randomizer)

"""A table of a town with gaps, hours with a spike, years, and dates whose name is HTML."""

import numpy as np
import pyarrow as pa

from privot.schema import Schema

SCHEMA = Schema.from_toml("""
[columns.town]
kind = "categorical"
categories = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11", "t12",
              "t13", "t14", "t15", "t16", "t17", "t18", "t19"]
nullable = true
[columns.hours]
kind = "numeric"
bounds = [1, 99]
integer = true
bins = [1, 20, 41, 99]
spikes = [40]
[columns.year]
kind = "numeric"
bounds = [0, 39]
integer = true
bins = "integers"
[columns."<i>born"]
kind = "datetime"
bounds = [1950-01-01, 2009-12-31]
""")


def people(num, seed):
    rng = np.random.default_rng(seed)
    town = (20 * rng.random(num) ** 2).astype(int)
    return pa.table(
        {
            "town": pa.array([f"t{i}" for i in town], mask=rng.random(num) < 0.2),
            "hours": np.where(rng.random(num) < 0.5, 40, rng.integers(1, 100, num)),
            "year": rng.integers(0, 40, num),
            "<i>born": np.datetime64("1950-01-01") + rng.integers(0, 21_900, num),
        }
    )

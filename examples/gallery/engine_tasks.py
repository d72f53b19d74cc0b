"""
On a cluster, or on one machine
===============================

Every record is noised on its own, so any number of machines can do it, in Spark, Beam, Ray, DuckDB
or Polars. But engines repeat work: a task whose machine died, a result that was lost. **However
often a task runs, everybody is in the release once**, as it has the reports of one execution.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

import privot
from privot.randomizer import EngineRun

plt.style.use("privot.report.paper")
folder = Path(tempfile.mkdtemp())

# %%
# Made-up ages, in four tasks.

ages = np.random.default_rng(0).normal(44, 13, 50_000).clip(18, 98)
tasks = [pa.table({"age": part}).to_batches() for part in np.split(ages, 4)]

schema = privot.Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [18, 98]
""")
randomizer = privot.Randomizer.calibrate(schema, epsilon=2.0)

# %%
# The function of Arrow batches that an engine calls writes reports, and returns a receipt of them.
# Here all tasks run, and then two run again, as if their receipts had not arrived.

run = EngineRun.begin(randomizer, folder / "release.parquet", num_rows=len(ages))
receipts = [pa.Table.from_batches(run.privatize(task)) for task in tasks]
receipts[2:] = [pa.Table.from_batches(run.privatize(task)) for task in tasks[2:]]
run.publish(receipts)
release = privot.Release.load(folder / "release.parquet")
print(f"{len(release):,} reports, {release.guarantee}")

# %%
# Another execution of the same tasks is refused.

try:
    list(run.privatize(tasks[0]))
except privot.PrivotError as error:
    print(error)

# %%
# Whoever has the release learns from it, wherever it was made.

learned = privot.fit(release, seed=0).sample(50_000, seed=1)
bins = np.linspace(18, 98, 41).tolist()
figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
axis.hist(ages, bins, density=True, color="C0", alpha=0.35, label="the truth")
for table, color, told in ((release.table, "C1", "sent"), (learned, "C2", "learned")):
    axis.hist(
        table["age"].to_numpy(),
        bins,
        density=True,
        histtype="step",
        linewidth=1.8,
        color=color,
        label=told,
    )
axis.set(yticks=[], xlabel="age", title="Noised anywhere, learned alike, at ε = 2")
axis.legend()
plt.show()

"""
On a cluster, or on one machine
===============================

Every record is noised on its own, so any number of machines can do it: each worker draws from its
own operating system, and no seed is sent around. **The release that comes out is of the same
kind**, and this page says whether a cluster made it.
"""

import importlib.util
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

import privot

plt.style.use("privot.report.paper")
folder = Path(tempfile.mkdtemp())

# %%
# Made-up ages in a Parquet file, which all workers can read.

ages = np.random.default_rng(0).normal(44, 13, 50_000).clip(18, 98)
privot.write_table(pa.table({"age": ages}), folder / "people.parquet")

schema = privot.Schema.from_toml("""
[columns.age]
kind = "numeric"
bounds = [18, 98]
""")
randomizer = privot.Randomizer.calibrate(schema, epsilon=2.0)

# %%
# With Ray each part of the file is a task, and is published once, even if a worker dies and its
# task runs again. Without Ray, one process noises all of it. On a single machine that is the faster
# way, too.

if importlib.util.find_spec("ray") is not None:
    from privot.randomizer.distributed import privatize_files

    privatize_files(
        randomizer, folder / "people.parquet", folder / "release.parquet", part_rows=12_500
    )
    release = privot.Release.load(folder / "release.parquet")
    print("Ray is installed: its workers noised the records.")
else:
    release = randomizer.privatize(privot.read_table(folder / "people.parquet"))
    print("Ray is not installed (pip install 'privot[ray]'): one process noised all records.")
print(f"{len(release):,} reports, {release.guarantee}")

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

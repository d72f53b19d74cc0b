"""
A campaign, as browsers report
==============================

A page asks, the browser noises, and one small message leaves. Here Python plays the browsers, by
the same program: whole numbers and the system's randomness, with nothing installed but the standard
library. **Who collects has the messages alone, and learns the map from them.**
"""

import math
import random

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import PowerNorm

import privot
from privot.device import Device
from privot.report import LIGHT

plt.style.use(["privot.report.paper", "privot.report.night"])

# %%
# The organizer asks: where in the town (kilometers from its southwest corner) do you cross a road
# in fear?

schema = privot.Schema.from_toml("""
[columns.crossing]
kind = "vector"
columns = ["east", "north"]
bounds = [[0, 10], [0, 10]]
""")
randomizer = privot.Randomizer.calibrate(schema, epsilon=4.0)

# %%
# A browser reads the randomizer's JSON, which is public, and reports one answer.

device = Device.from_json(randomizer.to_json())


def answer() -> dict[str, float]:
    """A made-up person's: on the ring road, mostly in the north, or at the station."""
    angle = random.gauss(1.6, 1.2)
    ring = (5 + 3 * math.cos(angle), 5 + 3 * math.sin(angle))
    east, north = (7.5, 3.0) if random.random() < 0.3 else ring
    return {"east": east + random.gauss(0, 0.15), "north": north + random.gauss(0, 0.15)}


answers = [answer() for _ in range(10_000)]
reports = [device.report(each) for each in answers]
messages = [report.to_bytes() for report in reports]
print(f"{len(messages[0])} bytes leave, of which {len(reports[0].payload)} come from the answer")

# %%
# The collector reads the messages, counts each once, and learns.

release = privot.collect(messages, randomizer).release
drawn = privot.fit(release, seed=0).sample(10_000, seed=1)
told = {name: np.array([each[name] for each in answers]) for name in ("east", "north")}

figure, axes = plt.subplots(1, 3, figsize=(5.4, 2.4), layout="constrained")
tables = {"answers": told, "messages": release.table, "learned": drawn}
for axis, (title, table) in zip(axes, tables.items(), strict=True):
    places = [np.asarray(table[name]) for name in ("east", "north")]
    axis.hist2d(*places, bins=50, range=[(0, 10), (0, 10)], cmap=LIGHT, norm=PowerNorm(0.5, 0, 40))
    axis.set(title=title, aspect="equal")
    axis.set_axis_off()
figure.suptitle("What the messages hide, and what all of them tell", x=0.01, ha="left")
plt.show()

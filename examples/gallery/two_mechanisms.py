"""
Two mechanisms at one ε
=======================

The promise is the same, ε = 4, and so are the people. First each device adds Laplace noise to its
home, as the textbooks do. Then it sends a *window*: a place near the home, or else any place.
**What a mechanism spends its ε on decides what can be learned.**
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import PowerNorm

import privot
from privot.demo.homes import draw_people
from privot.report import LIGHT

plt.style.use(["privot.report.paper", "privot.report.night"])
BOX = ((-8.7, 1.8), (49.8, 60.9))
schema = privot.Schema.from_dict(
    {"columns": {"home": {"kind": "vector", "columns": ["longitude", "latitude"], "bounds": BOX}}}
)
people = draw_people(60_000, seed=0)

# %%
# Both randomizers carry the same guarantee, and print it.

panels = []
for mechanism in ("laplace", "window"):
    randomizer = privot.Randomizer.calibrate(schema, epsilon=4.0, mechanism=mechanism)
    release = randomizer.privatize(people)
    learned = privot.fit(release, seed=0).sample(60_000, seed=1)
    print(f"{mechanism}: {release.guarantee}")
    panels += [(f"{mechanism}: sent", release.table), (f"{mechanism}: learned", learned)]

# %%
# What is sent by Laplace noise is as wide as the country, and much of it falls off the map. Reports
# lie on a grid of 256 steps; moved by less than a step, they make no stripes in the picture.

rng = np.random.default_rng(0)
figure, axes = plt.subplots(1, 4, figsize=(5.4, 3), layout="constrained")
for axis, (title, table) in zip(axes, panels, strict=True):
    homes = np.stack([table["longitude"].to_numpy(), table["latitude"].to_numpy()], axis=1)
    homes += rng.uniform(-0.5, 0.5, homes.shape) * np.ptp(BOX, axis=1) / 256
    axis.hist2d(*homes.T, bins=(60, 100), range=BOX, cmap=LIGHT, norm=PowerNorm(0.45, 0, 120))
    axis.set_title(title, fontsize=10)
    axis.set_aspect(1.75)
    axis.set_axis_off()
figure.suptitle("The same people, the same ε = 4", x=0.01, ha="left")
plt.show()

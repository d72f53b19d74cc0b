"""
A map at three ε
================

Sixty thousand made-up people live in the towns of the United Kingdom. Each reports their own home
once, noised on their own device. **At ε = 1 the reports teach regions, at ε = 2 the largest cities,
at ε = 8 towns.** The people are the same; only the noise on each report differs.
"""

import matplotlib.pyplot as plt
from matplotlib.colors import PowerNorm

import privot
from privot.demo.homes import draw_people
from privot.report import LIGHT

plt.style.use(["privot.report.paper", "privot.report.night"])

# %%
# What a home may be is public, and written by hand. Noise is scaled to these bounds, so they must
# not be computed from the homes.

BOX = ((-8.7, 1.8), (49.8, 60.9))
schema = privot.Schema.from_dict(
    {"columns": {"home": {"kind": "vector", "columns": ["longitude", "latitude"], "bounds": BOX}}}
)

# %%
# The device noises; whoever has the reports learns a density from them, and draws made-up people.

people = draw_people(60_000, seed=0)
maps = {"the truth": people}
for epsilon in (8.0, 2.0, 1.0):
    randomizer = privot.Randomizer.calibrate(schema, epsilon)
    release = randomizer.privatize(people)
    maps[f"ε = {epsilon:g}"] = privot.fit(release, seed=0).sample(60_000, seed=1)

# %%
# Where it is bright, many live. A demonstration can show the truth beside; a real curator never
# sees it.

figure, axes = plt.subplots(1, 4, figsize=(5.4, 3), layout="constrained")
for axis, (title, table) in zip(axes, maps.items(), strict=True):
    homes = (table["longitude"].to_numpy(), table["latitude"].to_numpy())
    axis.hist2d(*homes, bins=(60, 100), range=BOX, cmap=LIGHT, norm=PowerNorm(0.45, 0, 120))
    axis.set_title(title, fontsize=11)
    axis.set_aspect(1.75)
    axis.set_axis_off()
figure.suptitle("The larger ε, the finer the map", x=0.01, ha="left")
plt.show()

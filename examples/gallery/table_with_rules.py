"""
A table with rules
==================

Nobody has more breakfasts than nights, and what a stay costs follows from both. A learned table
does not know that by itself. **Rules that are written in the schema hold in every row that is
drawn**, and cost no privacy: devices never check them.
"""

import matplotlib.pyplot as plt
import numpy as np

import privot

plt.style.use("privot.report.paper")

# %%
# A rule with one equals sign defines a column: it is left out of reports, and computed in samples.

schema = privot.Schema.from_toml("""
rules = ["breakfasts <= nights", "cost = 90 * nights + 15 * breakfasts"]
[columns.nights]
kind = "numeric"
integer = true
bounds = [1, 14]
[columns.breakfasts]
kind = "numeric"
integer = true
bounds = [0, 14]
[columns.cost]
kind = "numeric"
integer = true
bounds = [0, 2000]
""")

# %%
# Made-up guests: some take breakfast every morning, most on some days.

rng = np.random.default_rng(0)
nights = np.minimum(rng.geometric(0.25, 20_000), 14)
breakfasts = rng.binomial(nights, rng.choice([0.3, 1.0], 20_000))
cost = 90 * nights + 15 * breakfasts
guests = {"nights": nights, "breakfasts": breakfasts, "cost": cost}

randomizer = privot.Randomizer.calibrate(schema, epsilon=6.0)
model = privot.fit(randomizer.privatize(guests), seed=0)
drawn = model.sample(20_000, seed=1)
broken = int((drawn["breakfasts"].to_numpy() > drawn["nights"].to_numpy()).sum())
print(f"rows with more breakfasts than nights: {broken}")

# %%
# The larger a dot, the more guests. Nothing is drawn above the line.

figure, axes = plt.subplots(1, 2, figsize=(5, 3.5), sharey=True, layout="constrained")
for axis, table, title, color in (
    (axes[0], guests, "the truth", "C0"),
    (axes[1], drawn, "learned, ε = 6", "C2"),
):
    pairs = np.stack([np.asarray(table["nights"]), np.asarray(table["breakfasts"])])
    (x, y), count = np.unique(pairs, axis=1, return_counts=True)
    axis.scatter(x, y, s=count / 15, color=color, alpha=0.8, linewidth=0)
    axis.plot([0, 14], [0, 14], color="C1", linewidth=1)
    axis.set(title=title, xlabel="nights", xticks=[0, 7, 14], yticks=[0, 7, 14], aspect="equal")
axes[0].set_ylabel("breakfasts")
figure.suptitle("No row that is drawn breaks the rule", x=0.01, ha="left")
plt.show()

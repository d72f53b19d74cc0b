"""
Waves over time
===============

The same question is asked every week for half a year. Each person reports in one week of six, with
the whole ε, and never twice in six weeks. **A model of all weeks follows what moves, says how sure
it is, and finds the week in which something jumped.**
"""

import matplotlib.pyplot as plt
import numpy as np

import privot
from privot.waves import Panel

plt.style.use("privot.report.paper")
WEEKS = 26

# %%
# Made-up people: ever more of them cycle, and in week 19 a bridge is closed.

schema = privot.Schema.from_toml("""
[columns.cycles]
kind = "boolean"
""")
truth = 0.2 + 0.008 * np.arange(WEEKS) - 0.12 * (np.arange(WEEKS) >= 18)

# %%
# Public coins put each of 12 000 devices into one of six slots: who reports in which week.

panel = Panel("cycling", window=6, start=1_767_571_200, length=604_800, seed="2026", waves=WEEKS)
slots = np.array([panel.slot(f"device {i}") for i in range(12_000)])
rng = np.random.default_rng(0)
randomizer = privot.Randomizer.calibrate(schema, epsilon=2.0)
releases = []
for week, share in enumerate(truth):
    cycles = rng.random(int((slots == week % 6).sum())) < share
    releases.append(randomizer.privatize({"cycles": cycles}))

# %%
# The model follows the share, and looks for a jump.

model = privot.fit(releases, times=range(1, len(releases) + 1), seed=0)
trend, change = model.trend("cycles", True), model.change_point("cycles")
print(f"between two weeks, something jumped: before week {change.time} (p = {change.p_value:.3f})")

# %%
# A gray dot is what one week's reports say alone. The band is of all weeks together.

alone = []
for release in releases:
    drawn = privot.fit(release, seed=0).sample(20_000, seed=1)
    alone.append(100 * np.mean(drawn["cycles"].to_numpy(zero_copy_only=False)))
weeks = np.arange(1, WEEKS + 1)
figure, axis = plt.subplots(layout="constrained")
axis.plot(weeks, 100 * truth, "--", color="C0", label="the truth")
axis.plot(weeks, alone, "o", color="C1", markersize=4, label="each week alone")
axis.fill_between(weeks, 100 * trend.low, 100 * trend.high, color="C2", alpha=0.2, linewidth=0)
axis.plot(weeks, 100 * trend.estimate, color="C2", label="all weeks, with a band of 95 %")
axis.set(
    xlabel="week",
    ylabel="% who cycle",
    ylim=(18, 42),
    title="The model follows the drift, and finds the jump",
)
axis.legend(loc="upper left")
plt.show()

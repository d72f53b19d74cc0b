"""
Shuffling: hidden in the crowd
==============================

If somebody trusted mixes all reports and drops who sent which, whoever sees the mixture learns less
of each person than ε says. **The more people report, the better each is hidden.** This needs
somebody to trust, and reports that carry nothing but themselves; without a shuffler, the local ε is
what holds.
"""

import matplotlib.pyplot as plt
import numpy as np

from privot.privacy.shuffling import calibrate_shuffling, shuffled_epsilon

plt.style.use("privot.report.paper")
DELTA = 1e-8

# %%
# The bound is proven for whatever mechanism is ε-private; below a certain crowd it gives nothing.

people = np.geomspace(1e3, 1e7, 13).astype(int)
figure, axis = plt.subplots(layout="constrained")
for local, color in ((1.0, "C1"), (2.0, "C0"), (4.0, "C2"), (6.0, "C3")):
    central = [shuffled_epsilon(local, int(n), DELTA).epsilon for n in people]
    axis.plot(people, central, color=color, linewidth=1.8)
    axis.text(1.2e7, central[-1], f"ε = {local:g}", color=color, va="center")
axis.set(xscale="log", yscale="log", xlabel="people", ylabel="ε after shuffling, δ = 10⁻⁸")
axis.set_yticks([0.01, 0.1, 1.0], ["0.01", "0.1", "1"])
axis.set_title("The more people, the better hidden")

# %%
# The other way round: what may each report cost, if the mixture is to cost 0.5?

for n in (10_000, 100_000, 1_000_000):
    print(f"{n:>9,} people: each report may have ε = {calibrate_shuffling(0.5, n, DELTA):.2f}")
plt.show()

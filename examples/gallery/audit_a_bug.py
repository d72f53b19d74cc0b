"""
An audit that catches a bug
===========================

A number from −1 to 1 gets Laplace noise. Its scale must be the *diameter* of that range, 2, over ε.
To take the radius, 1, is an old mistake: half the noise, and nothing that looks wrong. **An audit
draws from two records, counts, and proves a lower bound on the real ε**; a bound above the promise
refutes it.
"""

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np

from privot.audit.statistics import audit
from privot.mechanisms import Laplace

plt.style.use("privot.report.paper")
EPSILON = 1.0

# %%
# Both promise ε = 1 for records in [−1, 1].


def noised_by(scale: float) -> Callable[[float, int], np.ndarray]:
    """Reports (n,) of one record, drawn n times."""
    noise = Laplace(scale, grid=2.0**-10)
    return lambda record, n: noise.privatize(np.full((n, 1), record))[:, 0]


devices = {
    "scale = diameter / ε": noised_by(2 / EPSILON),
    "scale = radius / ε": noised_by(1 / EPSILON),
}

# %%
# The two records that are farthest apart are tried. The bound holds with probability 99.9 %.

figure, axes = plt.subplots(2, 1, figsize=(5, 4.2), sharex=True, layout="constrained")
for axis, (told, device) in zip(axes, devices.items(), strict=True):
    found = audit(device, [(-1.0, 1.0)], num_draws=200_000, confidence=0.999)
    verdict = "refuted" if found.refutes(EPSILON) else "nothing found"
    axis.set_title(f"{told}: ε ≥ {found.epsilon_lower:.2f}, {verdict}", fontsize=11)
    print(f"{told}: ε is at least {found.epsilon_lower:.2f}, {EPSILON:g} was promised: {verdict}")
    for record, name, color in ((-1.0, "−1", "C0"), (1.0, "1", "C2")):
        axis.hist(
            device(record, 200_000), np.linspace(-6, 6, 97), histtype="step", linewidth=1.5,
            color=color, label=f"reports of {name}",
        )  # fmt: skip
    axis.set(yticks=[], xlim=(-6, 6))
axes[0].legend(loc="upper right")
axes[1].set_xlabel("report")
plt.show()

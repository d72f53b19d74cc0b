"""
Slices: a distance from many shadows
====================================

How far apart are two clouds of points? On a line transport needs sorting alone. So look at the
clouds' shadows along many directions: **the sliced Wasserstein distance is the mean of what the
shadows say**, it tells in which direction the clouds differ, and it costs little in any dimension.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from privot.transport import sliced_wasserstein

plt.style.use("privot.report.paper")

# %%
# Two clouds that differ along one diagonal, and not along the other.

rng = np.random.default_rng(0)
turn = np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
clouds = [rng.normal(size=(1_500, 2)) * [spread, 0.4] @ turn for spread in (1.6, 0.4)]
first, second = (torch.tensor(cloud) for cloud in clouds)

# %%
# A direction is a column of unit length. Along one direction the distance is that of two sorted
# lists.

angles = np.linspace(0, 2 * np.pi, 181)
directions = torch.tensor(np.stack([np.cos(angles), np.sin(angles)]))
along = [float(sliced_wasserstein(first, second, direction[:, None])) for direction in directions.T]
print(f"largest {max(along):.2f}, smallest {min(along):.2f}")
print(f"all directions together: {float(sliced_wasserstein(first, second, directions)):.2f}")

# %%
# Left the clouds, right what each shadow says, drawn towards where it was cast.

figure = plt.figure(figsize=(5, 3), layout="constrained")
left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2, projection="polar")
for cloud, color in zip(clouds, ("C0", "C2"), strict=True):
    left.scatter(cloud[:, 0], cloud[:, 1], s=2, alpha=0.4, color=color)
left.set(
    title="two clouds", aspect="equal", xlim=(-4.5, 4.5), ylim=(-4.5, 4.5), xticks=[], yticks=[]
)
right.fill(angles, along, color="C4", alpha=0.3)
right.plot(angles, along, color="C4")
right.set(xticklabels=[], yticks=[0.5, 1.0], title="distance by direction")
right.grid(color="#c9cfdb")
figure.suptitle("Far apart along one diagonal, not along the other", x=0.01, ha="left")
plt.show()

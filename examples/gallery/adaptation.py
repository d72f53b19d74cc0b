"""
Adaptation to records without labels
====================================

A public source has labels. A private target has none, and its records are shifted: another scanner,
another hospital. A curator releases eight noisy sums of the target. **They move the source to where
the target is, and a classifier that learns there is right again.**
"""

import matplotlib.pyplot as plt
import numpy as np

from privot.central import adapt

plt.style.use("privot.report.paper")
SHIFT = np.array([0.4, 0.0])

# %%
# Made-up measurements of two kinds. The target's kinds are known here, but only to judge what was
# learned.

rng = np.random.default_rng()


def measured(kinds: np.ndarray) -> np.ndarray:
    """Two numbers of each record (n, 2)."""
    middle = np.stack([0.3 + kinds, 0.6 - 0.2 * kinds], axis=1)
    return abs(rng.normal(0, 0.15, middle.shape) + middle)


source_kinds, target_kinds = (rng.integers(0, 2, 6_000) for _ in range(2))
source, target = measured(source_kinds), measured(target_kinds) + SHIFT

# %%
# ε = 8 and δ = 10⁻⁵ cover all sums together, of target records that differ in one.

adapted = adapt(
    source, source_kinds, target, epsilon=8.0, delta=1e-5, unit="patient", rounds=4,
    training_steps=300, feature_dim=8, hidden=(16,), channels=(), source_batch=64,
    learning_rate=1e-2, averaging=0.9,
)  # fmt: skip
print(adapted.guarantee)

# %%
# Without the target, each record gets the kind whose mean in the source is nearest.

means = np.stack([source[source_kinds == kind].mean(axis=0) for kind in (0, 1)])
nearest = np.linalg.norm(target[:, None] - means, axis=2).argmin(axis=1)
told = {"by the source alone": nearest, "after eight noisy sums": adapted.predict(target)}

figure, axes = plt.subplots(2, 1, figsize=(5, 4.6), sharex=True, layout="constrained")
for axis, (title, kinds) in zip(axes, told.items(), strict=True):
    wrong = kinds != target_kinds
    for kind, color in ((0, "C0"), (1, "C2")):
        axis.scatter(
            *target[kinds == kind].T, s=4, alpha=0.4, color=color, label=f"taken for kind {kind}"
        )
    axis.scatter(
        *target[wrong].T, s=10, facecolor="none", edgecolor="black", linewidth=0.5, label="wrongly"
    )
    axis.set_title(f"{title}: {wrong.mean():.0%} wrong", fontsize=11)
    axis.set(xticks=[], yticks=[], aspect="equal")
axes[0].legend(loc="upper right", fontsize=8, markerscale=2)
plt.show()

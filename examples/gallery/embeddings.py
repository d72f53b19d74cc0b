"""
Embeddings with labels
======================

A public network turns a text or a photograph into a vector of 16 numbers. The device reports the
vector and its topic together, at local ε = 4. **Nobody sees a single vector, and still it is
learned where the topics lie.** The vectors are made up: four clouds on the unit sphere.
"""

import matplotlib.pyplot as plt
import numpy as np

import privot

plt.style.use("privot.report.paper")
TOPICS = ["sports", "politics", "science", "arts"]
NUMBERS = [f"v{i}" for i in range(16)]

# %%
# All vectors lie in a ball of radius 1, which is public: networks normalize what they make.

schema = privot.Schema.from_dict(
    {
        "columns": {
            "vector": {"kind": "vector", "columns": NUMBERS, "radius": 1.0},
            "topic": {"kind": "categorical", "categories": TOPICS},
        }
    }
)

rng = np.random.default_rng(0)
topic = rng.choice(4, 60_000, p=[0.4, 0.3, 0.2, 0.1])
vectors = rng.normal(size=(4, 16))[topic] + rng.normal(size=(60_000, 16)) * 0.5
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
people = dict(zip(NUMBERS, vectors.T, strict=True)) | {"topic": np.array(TOPICS)[topic]}

# %%
# One report is 12 bytes: a public direction that leans towards the vector and its topic.

release = privot.Randomizer.calibrate(schema, epsilon=4.0).privatize(people)
drawn = privot.fit(release, seed=0).sample(3_000, seed=1)
learned = np.stack([drawn[name].to_numpy() for name in NUMBERS], axis=1)
learned_topics = drawn["topic"].to_numpy(zero_copy_only=False)

# %%
# Sixteen numbers are seen along the two directions in which the true vectors spread most.

plane = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)[2][:2]
figure, axes = plt.subplots(1, 2, figsize=(5, 3.3), sharex=True, sharey=True, layout="constrained")
for axis, title, points, names in (
    (axes[0], "the truth", vectors[:3_000], people["topic"][:3_000]),
    (axes[1], "learned, ε = 4", learned, learned_topics),
):
    for name, color in zip(TOPICS, ("C0", "C2", "C3", "C4"), strict=True):
        x, y = plane @ points[names == name].T
        axis.scatter(x, y, s=2, alpha=0.5, color=color, label=name)
    axis.set(title=title, xticks=[], yticks=[], aspect="equal")
shown = axes[0].get_legend_handles_labels()
figure.legend(*shown, ncols=4, markerscale=4, loc="outside lower center")
figure.suptitle("Where topics lie, learned from reports", x=0.01, ha="left")
plt.show()

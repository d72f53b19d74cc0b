"""Learn a half circle from reports that do not look like one.

Every record lies on a curve that is public knowledge; where on it is private. Each report is its
record plus Laplace noise at ε = 5, as wide as the curve itself. Under a minute on two cores:

    python examples/half_circle.py
"""

import numpy as np

import privot

angles = np.deg2rad(np.arange(181))
schema = privot.Schema.from_dict(
    {
        "columns": {
            "point": {
                "kind": "vector",
                "columns": ["x", "y"],
                "support": [[float(np.cos(angle)), float(np.sin(angle))] for angle in angles],
            }
        }
    }
)

# On each person's device: the schema is public, the record stays here, the report is sent.
angle = np.random.default_rng(0).uniform(0, np.pi, 100_000)
records = {"x": np.cos(angle), "y": np.sin(angle)}
randomizer = privot.Randomizer.calibrate(schema, epsilon=5.0, mechanism="laplace")
release = randomizer.privatize(records)
print(release.guarantee)

# At the curator, who has the release and nothing else.
model = privot.fit(
    release,
    privot.FitSettings(estimator="generator", steps=3000, batch_size=500, latent_dim=2),
    seed=0,
)
synthetic = model.sample(100_000, seed=0)

# A demonstration can look at the truth: shares of people in each sixth of the half circle.
for name, table in (("reports", release.table), ("learned", synthetic)):
    found = np.arctan2(table["y"].to_numpy(), table["x"].to_numpy()) % (2 * np.pi)
    shares = np.histogram(found, bins=np.linspace(0, np.pi, 7))[0] / len(found)
    print(f"{name}: ", "  ".join(f"{share:.3f}" for share in shares), " (truth: 0.167 each)")

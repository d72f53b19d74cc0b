# ruff: noqa: E501 (a case is a row)
"""Fits of what is no release, and settings by which nothing is learned."""

from bad_inputs.cases import cases

CASES = cases(
    ("fit nowhere.parquet -o out", "nowhere.parquet is not there"),
    ("fit people.csv -o out", "people.csv"),
    ("fit schema.toml -o out", "schema.toml"),
    ("fit randomizer.json -o out", "randomizer.json"),
    ("fit model -o out", "model"),
    ("fit images.npz -o out", "images.npz"),
    ("fit bad.parquet -o out", "bad.parquet", {"bad.parquet": b"PAR1"}),
    *((f"fit release.parquet -o out --seed {seed}", "seed") for seed in ("-1", "1" + "0" * 30, "x", "1.5")),
    *((f"fit release.parquet -o out --estimator generator --steps {n}", "steps") for n in ("0", "-4", "1" + "0" * 20, "x")),
    *((f"fit release.parquet -o out --estimator generator --batch-size {n}", "batch") for n in ("0", "1", "-4", "61", "1" + "0" * 20)),
    *((f"fit release.parquet -o out --estimator generator --learning-rate {rate}", "learning") for rate in ("0", "-1", "nan", "inf", "1e9", "x")),
    ("fit release.parquet -o out --loss plain", "loss"),
    ("fit release.parquet -o out --steps 10", "steps"),
    ("fit release.parquet -o out --batch-size 10", "batch_size"),
    ("fit release.parquet -o out --learning-rate 0.1", "learning_rate"),
    ("fit release.parquet -o out --estimator latent_classes --steps 10", "steps"),
    ("fit release.parquet -o out --estimator trees", "estimator is 'trees'"),
    ("fit release.parquet -o out --loss huber", "loss is 'huber'"),
    ("fit release.parquet -o out --device tpu", "device"),
    ("fit release.parquet -o people.csv", "people.csv"),
)  # fmt: skip

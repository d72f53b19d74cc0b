# ruff: noqa: E501 (a case is a row)
"""Slices of what are no records, and budgets that are none."""

from bad_inputs.cases import cases

MIXTURE = "central fit ages.csv --schema one.toml -o out"
TABLE = "central fit ages.csv --method slices --schema one.toml -o out"
DIGITS = "central fit images.npz --method slices --schema images.toml --batch-size 10 -o out"
ADAPT = "central adapt digits.npz digits.npz --unit person -o out"
CASES = cases(
    *((f"{line} --epsilon {e}", "epsilon") for line in (TABLE, DIGITS, ADAPT) for e in ("0", "-1", "inf", "nan")),
    *((f"{TABLE} --epsilon 1 --delta {d}", "delta") for d in ("0", "1", "-1", "nan", "1e-320")),
    *((f"{TABLE} --epsilon 1 --steps {n}", "steps") for n in ("0", "-1", "1" + "0" * 20)),
    *((f"{TABLE} --epsilon 1 --batch-size {n}", "batch") for n in ("0", "-1", "1" + "0" * 20)),
    *((f"{TABLE} --epsilon 1 --num-projections {n}", "num_projections") for n in ("0", "-1", "1" + "0" * 20)),
    *((f"{TABLE} --epsilon 1 --seed {n}", "seed") for n in ("-1", "1" + "0" * 30)),
    *((f"{TABLE} --epsilon 1 --degree {n}", "degree") for n in ("0", "3", "-1")),
    (f"{TABLE} --epsilon 1 --neighboring next", "neighboring"),
    (f"{TABLE} --epsilon 1 --release twice", "release is 'twice'"),
    (f"{MIXTURE} --epsilon 1 --estimator trees", "estimator"),
    *((f"{MIXTURE} --epsilon {e}", "epsilon") for e in ("0", "-1", "inf", "nan")),
    *((f"{MIXTURE} --epsilon 1 --{name} {n}", name) for name in ("components", "classes") for n in ("0", "-1", "1" + "0" * 20)),
    (f"{TABLE} --epsilon 1 --loss huber", "loss is 'huber'"),
    (f"{TABLE} --epsilon 1 --loss entropic", "release='once'"),
    (f"{TABLE} --epsilon 1 --ignore size", "no such column"),
    (f"{DIGITS} --epsilon 1 --low-pass 0", "low_pass"),
    (f"{DIGITS} --epsilon 1 --low-pass -3", "low_pass"),
    ("central fit nowhere.npz --schema images.toml --epsilon 1 -o out", "nowhere.npz"),
    ("central fit images.npz --schema nowhere.toml --epsilon 1 -o out", "nowhere.toml"),
    ("central fit people.csv --schema images.toml --epsilon 1 -o out", "people.csv"),
    ("central fit digits.npz --schema images.toml --epsilon 1 -o out", "image"),
    ("central fit images.npz --epsilon 1 -o out", "--schema"),
    ("central fit release.parquet --schema schema.toml --epsilon 1 -o out", "release"),
    ("central adapt nowhere.npz digits.npz --unit person --epsilon 1 -o out", "nowhere.npz"),
    ("central adapt digits.npz people.csv --unit person --epsilon 1 -o out", "people.csv"),
    ("central adapt images.npz digits.npz --unit person --epsilon 1 -o out", "'x'"),
    *((f"{ADAPT} --epsilon 1 --training-steps {n}", "training_steps") for n in ("0", "-1", "1" + "0" * 20)),
    *((f"{ADAPT} --epsilon 1 --rounds {n}", "rounds") for n in ("0", "-1", "1" + "0" * 20)),
    *((f"{ADAPT} --epsilon 1 --maximum {n}", "--maximum") for n in ("0", "-1", "nan")),
    *((f"{ADAPT} --epsilon 1 --seed {n}", "seed") for n in ("-1", "1" + "0" * 30)),
)  # fmt: skip

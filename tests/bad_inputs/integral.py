# ruff: noqa: E501 (a case is a row)
"""Integral privacy of what are no records, and draws of what is no secret."""

from bad_inputs.cases import cases

FIT = "integral fit ages.csv --schema one.toml -o out --draws 5"
CASES = cases(
    *((f"{FIT} --epsilon {e}", "epsilon") for e in ("0", "-1", "inf", "nan", "x")),
    *((f"{FIT} --epsilon-per-draw {e}", "epsilon") for e in ("0", "-1", "inf", "nan")),
    (FIT, "epsilon"),
    (f"{FIT} --epsilon 1 --epsilon-per-draw 1", "epsilon"),
    *((FIT.replace("--draws 5", f"--draws {n}") + " --epsilon 1", "draws") for n in ("0", "-1", "1.5", "1" + "0" * 30)),
    *((f"{FIT} --epsilon 1 --seed {n}", "seed") for n in ("-1", "1" + "0" * 30)),
    (f"{FIT} --epsilon 1 --method guess", "method is 'guess'"),
    (f"{FIT} --epsilon 1 --estimator guess", "estimator is 'guess'"),
    (f"{FIT} --epsilon 1 --method boost --estimator spline", "spline"),
    (f"{FIT} --epsilon 1 --ignore size", "no such column"),
    ("integral fit release.parquet --schema schema.toml -o out --draws 5 --epsilon 1", "release"),
    ("integral fit nowhere.csv --schema one.toml -o out --draws 5 --epsilon 1", "is not there"),
    ("integral fit people.csv --schema one.toml -o out --draws 5 --epsilon 1", "none of the columns"),
    ("integral fit ages.csv --schema nowhere.toml -o out --draws 5 --epsilon 1", "nowhere.toml"),
    ("integral fit ages.csv --schema one.toml -o secret --draws 5 --epsilon 1", "secret exists"),
    ("integral fit ages.csv --schema one.toml -o people.csv --draws 5 --epsilon 1", "people.csv exists"),
    ("integral fit images.npz --schema images.toml -o out --draws 5 --epsilon 1", "image"),
    ("integral sample nowhere -o out.csv", "nowhere"),
    ("integral sample model -o out.csv", "model"),
    ("integral sample people.csv -o out.csv", "people.csv"),
    ("integral sample secret -o people.csv", "people.csv exists"),
    ("integral sample secret -o out.xlsx", "unknown format"),
    ("integral sample secret -o nowhere/out.csv", "nowhere"),
    *((f"integral sample secret -n {n} -o out.csv", "num_rows") for n in ("0", "-1", "1" + "0" * 20)),
    ("integral sample secret -n 6 -o out.csv", "draw"),
    *((f"integral sample secret --shortfall {n} -o out.csv", "shortfall") for n in ("0", "-1", "nan", "2")),
)  # fmt: skip

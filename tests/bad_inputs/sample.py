"""Draws from what is no model, and of what no model draws."""

from bad_inputs.cases import cases

CASES = cases(
    ("sample nowhere -o out.csv", "nowhere"),
    ("sample people.csv -o out.csv", "people.csv"),
    ("sample release.parquet -o out.csv", "release.parquet"),
    ("sample randomizer.json -o out.csv", "randomizer.json"),
    ("sample secret -o out.csv", "privot integral sample"),
    *((f"sample model -n {n} -o out.csv", "num_rows") for n in ("-1", "1" + "0" * 20)),
    ("sample model -n 1.5 -o out.csv", "--num-rows"),
    *((f"sample model --seed {seed} -o out.csv", "seed") for seed in ("-1", "1" + "0" * 30)),
    ("sample model --seed x -o out.csv", "--seed"),
    ("sample model -o out.xlsx", "unknown format"),
    ("sample model -o nowhere/out.csv", "nowhere"),
    ("sample model --where color -o out.csv", "COLUMN=VALUE"),
    ("sample model --where size=3 -o out.csv", "size"),
    ("sample model --where color=pink -o out.csv", "pink"),
    ("sample model --where height=tall -o out.csv", "height"),
    ("sample broken -o out.csv", "broken", {"broken/model.json": "{}"}),
    ("sample broken -o out.csv", "broken", {"broken/model.json": "no"}),
    ("sample broken -o out.csv", "broken", {"broken/model.json": '{"kind": "local", "format": 99}'}),
    ("sample broken -o out.csv", "broken", {"broken/model.json": '{"kind": "sliced", "format": 1}'}),
)  # fmt: skip

"""Checks of what is no model, by what are no reports, or too few."""

from bad_inputs.cases import cases

CASES = cases(
    ("check nowhere release.parquet", "nowhere"),
    ("check people.csv release.parquet", "people.csv"),
    ("check secret release.parquet", "is no model of one release of reports"),
    ("check model", "'release'"),
    ("check model nowhere.parquet", "nowhere.parquet"),
    ("check model people.csv", "people.csv"),
    ("check model release.parquet", "60 reports are too few to check a model by"),
    ("check model release.parquet -o out.txt", ".html"),
    ("check model release.parquet -o nowhere/out.html", "nowhere"),
    ("check model release.parquet --seed -1", "seed"),
    ("check model release.parquet --seed x", "--seed"),
)

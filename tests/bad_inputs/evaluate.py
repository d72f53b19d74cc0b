"""Comparisons of what is no model with what are no records."""

from bad_inputs.cases import cases

CASES = cases(
    ("evaluate nowhere --against people.csv -o out.html", "nowhere"),
    ("evaluate people.csv --against people.csv -o out.html", "people.csv"),
    ("evaluate secret --against people.csv -o out.html", "cost budget"),
    ("evaluate model -o out.html", "--against"),
    ("evaluate model --against nowhere.csv -o out.html", "is not there"),
    ("evaluate model --against release.parquet -o out.html", "is a release"),
    ("evaluate model --against ages.csv -o out.html", "none of the columns"),
    ("evaluate model --against people.csv --ignore size -o out.html", "no such column"),
    ("evaluate model --against people.csv --separator ; -o out.html", "separat"),
    ("evaluate model --against people.csv --target height_of -o out.html", "height_of"),
    ("evaluate model --against people.csv -n 0 -o out.html", "num_rows"),
    ("evaluate model --against people.csv -n -5 -o out.html", "num_rows"),
    ("evaluate model --against people.csv --most-real 0 -o out.html", "most"),
    ("evaluate model --against people.csv --most-real -1 -o out.html", "most"),
    ("evaluate model --against people.csv --seed -1 -o out.html", "seed"),
    ("evaluate model --against people.csv --seed 1" + "0" * 30 + " -o out.html", "seed"),
)

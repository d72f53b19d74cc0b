"""Reports that are none."""

from bad_inputs.cases import cases

CASES = cases(
    ("collect -o out.parquet", "releases"),
    ("collect nowhere.parquet -o out.parquet", "nowhere.parquet"),
    ("collect people.csv -o out.parquet", "-r randomizer.json"),
    ("collect schema.toml -o out.parquet", "-r randomizer.json"),
    ("collect randomizer.json -o out.parquet", "randomizer.json"),
    ("collect people.csv -r randomizer.json -o out.parquet", "people.csv"),
    ("collect release.parquet -r schema.toml -o out.parquet", "not readable"),
    ("collect release.parquet -r nowhere.json -o out.parquet", "nowhere.json cannot be read"),
    ("collect bad.parquet -o out.parquet", "-r randomizer.json", {"bad.parquet": b"PAR1 no"}),
    ("collect bad.parquet -o out.parquet", "-r randomizer.json", {"bad.parquet": b""}),
    ("collect bad.csv -r randomizer.json -o out.parquet", "bad.csv", {"bad.csv": "a,b\n1,2\n"}),
    ("collect bad.csv -r randomizer.json -o out.parquet", "bad.csv", {"bad.csv": ""}),
)

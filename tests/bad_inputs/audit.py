"""Randomizers that are none."""

from bad_inputs.cases import cases

CASES = cases(
    ("audit nowhere.json", "nowhere.json cannot be read"),
    ("audit schema.toml", "not readable"),
    ("audit people.csv", "not readable"),
    ("audit release.parquet", "cannot be read"),
    ("audit model", "cannot be read"),
    ("audit bad.json", "not readable", {"bad.json": "{}"}),
    ("audit bad.json", "not readable", {"bad.json": "[]"}),
    ("audit bad.json", "not readable", {"bad.json": ""}),
    ("audit randomizer.json --draws x", "--draws"),
    ("audit randomizer.json --draws -5", "draws"),
    ("audit randomizer.json --confidence 1.5", "confidence"),
    ("audit randomizer.json --confidence -1", "confidence"),
    ("audit randomizer.json --confidence nan", "confidence"),
)

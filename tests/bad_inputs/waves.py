"""Panels that cannot be, and reports that nobody may make."""

import json

from bad_inputs.cases import Case, cases

PANEL = {"name": "bits", "window": 4, "start": 0, "length": 3600, "seed": "s", "waves": None}
NOW = {**PANEL, "start": 1_700_000_000, "length": 10**9, "window": 1}  # its first wave
SCHEMA_RECORD = '{"height": 1.8, "color": "red", "born": "1980-05-31", "kids": 2}'
REPORT = "waves report today.json -r randomizer.json --panel panel.json --ledger my.ledger"


def held(fields, record=SCHEMA_RECORD):
    """A panel and a record."""
    return {"panel.json": json.dumps({"format": 1, **fields}), "today.json": record}


def new(options, says):
    """A panel of these options."""
    given = {"--window": "4", "--start": "2026-01-05", **options}
    line = " ".join(f"{name} {value}" for name, value in given.items())
    return Case(f"waves new bits {line} -o new.json", says)


CASES = [
    *cases(
        ("waves nonsense", "nonsense"),
        ("waves new bits --start 2026-01-05", "--window"),
        ("waves new '' --window 4 --start 2026-01-05 -o new.json", "name ''"),
        ("waves new bits --window 4 --start 2026-01-05 -o new.toml", ".json"),
        ("waves new bits --window 4 --start 2026-01-05 -o randomizer.json", "exists"),
        ("waves show nowhere.json", "nowhere.json cannot be read"),
        ("waves show randomizer.json", "no panel"),
        ("waves show people.csv", "no panel"),
        ("waves show panel.json -r nowhere.json", "nowhere.json", held(PANEL)),
        ("waves show panel.json", "window 0", held({**PANEL, "window": 0})),
        ("waves show panel.json", "no panel", held({**PANEL, "more": 1})),
        (REPORT, "has ended", held({**PANEL, "waves": 2})),
        (REPORT, "has not begun", held({**PANEL, "start": 2**35})),
        (REPORT, "no record", held(NOW, "[]")),
        (REPORT, "no record", held(NOW, "height")),
        (REPORT.replace("today", "nowhere"), "nowhere.json cannot be read", held(NOW)),
        (REPORT.replace("-r randomizer", "-r panel"), "altered", held(NOW)),
        (REPORT.replace("my.ledger", "people.csv"), "people.csv is damaged or no", held(NOW)),
        (REPORT.replace("my.ledger", "today.json"), "today.json is damaged or no", held(NOW)),
        (REPORT.replace("my.ledger", "nowhere/my.ledger"), "nowhere", held(NOW)),
        (f"{REPORT} --limit-days 3", "--limit-days", held(NOW)),
        (f"{REPORT} --limit -1", "epsilon of a limit", held(NOW)),
        (f"{REPORT} --limit 1 --limit-days 0", "days of a limit", held(NOW)),
    ),
    new({"--window": "0"}, "window 0"),
    new({"--waves": "0"}, "waves 0"),
    new({"--start": "soon"}, "no date"),
    new({"--start": "1960-01-01"}, "start -"),
    new({"--days": "0"}, "--days"),
    new({"--days": "nan"}, "--days"),
    new({"--seed": "''"}, "seed ''"),
]

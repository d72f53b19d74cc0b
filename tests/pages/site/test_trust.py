"""The comparison of places of trust: every row that its slider reaches is there, as it was measured."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[3]
PARTS = ROOT / "site" / "static" / "trust"


def trust():
    spec = importlib.util.spec_from_file_location("trust", ROOT / "site" / "trust.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown():
    script = trust().rows_script()
    return json.loads(script.removeprefix("const FORECASTS = ").removesuffix(";\n"))


def test_every_place_of_trust_has_a_row_at_every_epsilon():
    rows = shown()
    for plan in ("towns", "accidents", "adult"):
        own = [row for row in rows if row["plan"] == plan]
        epsilons, people = {row["epsilon"] for row in own}, {row["people"] for row in own}
        assert epsilons >= {0.1, 1.0}
        assert len(people) == 1
        found = {(row["epsilon"], row["where"]) for row in own}
        places = ("local", "shuffled", "aggregated", "central")
        assert found == {(epsilon, where) for epsilon in epsilons for where in places}
        assert len(own) == len(found)


def test_rows_are_the_predicted_ones():
    files = trust().ROWS.glob("*.json")
    measured = [row for path in files for row in json.loads(path.read_text("utf-8"))]
    predicted = {
        (row["plan"], row["epsilon"], row["where"]): row
        for row in measured
        if row["row"] == "predicted" and row["seed"] == 0
    }
    for row in shown():
        own = predicted[row["plan"], row["epsilon"], row["where"]]
        assert row["error"] == own["errors"].get("two_way", own["errors"].get("W2"))
        assert row["error"] > 0
        assert row["epsilon0"] == own["epsilon0"]


def test_the_script_reads_what_the_page_has():
    page, script = ((PARTS / f"trust.{kind}").read_text("utf-8") for kind in ("html", "js"))
    for name in ("data", "epsilon", "epsilon-is", "measure", "rows", "floor", "people"):
        assert f'part("{name}")' in script
        assert f'id="trust-{name}"' in page

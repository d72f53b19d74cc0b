"""What the comparison of places of trust shows: predicted rows of the recipe `promise.forecasts`."""

import json
from pathlib import Path

ROWS = Path(__file__).parents[1] / "docs" / "results" / "promise" / "forecasts"


def rows_script(rows: Path = ROWS) -> str:
    """The script that defines `FORECASTS`, of all files in a folder: a local page may load no JSON.

    If a row was measured twice, the script has the last.
    """
    forecasts = {
        (row["plan"], row["epsilon"], row["where"]): {
            name: row[name] for name in ("plan", "people", "epsilon", "where", "epsilon0", "bytes")
        }
        | {"error": [*row["errors"].values()][-1], "floor": [*row["floor"].values()][-1]}
        for path in sorted(rows.glob("*.json"))
        for row in json.loads(path.read_text("utf-8"))
        if row["row"] == "predicted" and row["seed"] == 0
    }
    return f"const FORECASTS = {json.dumps([*forecasts.values()])};\n"

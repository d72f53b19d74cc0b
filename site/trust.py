"""What the comparison of places of trust shows: rows of `python -m studies promise.dial`."""

import json
from pathlib import Path

ROWS = Path(__file__).parents[1] / "docs" / "results" / "promise" / "forecasts" / "dial.json"


def rows_script(rows: Path = ROWS) -> str:
    """The script that defines `FORECASTS`: a page that is opened as a file may load no JSON."""
    return f"const FORECASTS = {json.dumps(json.loads(rows.read_text('utf-8')))};\n"

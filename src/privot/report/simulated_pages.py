"""What a rehearsal leaves: a page, pictures, rows and numbers, every one of them stamped SIMULATED."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from privot.evaluation.simulated import STAMP, Rehearsed
from privot.release import write_table
from privot.report.figures import plot
from privot.report.panels import data_uri, save_png, write_page
from privot.schema import Schema

WRITTEN = tuple(
    f"{STAMP}-{name}"
    for name in (
        "report.html",
        "picture.png",
        "numbers.json",
        "with-noise.csv",
        "without-noise.csv",
    )
)
NAMES = {
    "one_way": "a column's shares (total variation)",
    "two_way": "shares of a pair of columns (total variation)",
    "W2": "places (W₂, where the bounds are -1 and 1)",
}
_ROWS = 10_000


def stamped(figure: Figure) -> Figure:
    """The figure with its stamp across."""
    words: dict[str, Any] = {"ha": "center", "va": "center", "color": "#c8362f", "weight": "bold"}
    figure.text(0.5, 0.5, STAMP, rotation=25, fontsize=54, alpha=0.22, gid="stamp", **words)
    return figure


def write_rehearsal(folder: Path, told: Rehearsed, epsilon: float, people: int) -> list[Path]:
    """Write all files into a folder; which they are."""
    schema: Schema = told.model.schema
    figure = stamped(plot(told.model, told.people.slice(0, _ROWS), num_rows=_ROWS))
    paths = [folder / name for name in WRITTEN]
    rows = [
        (NAMES[key], told.predicted[key], told.low[key], told.high[key], told.without_noise[key])
        for key in told.predicted
    ]
    write_page(
        paths[0],
        "simulated.html",
        {
            "stamp": STAMP,
            "figure": data_uri(figure, dpi=130),
            "rows": rows,
            "people": people,
            "epsilon": epsilon,
            "unit": schema.unit,
            "rehearsals": told.rehearsals,
            "guarantee": str(told.model.guarantee),
        },
    )
    save_png(figure, paths[1], dpi=130)
    numbers = {
        "stamp": STAMP,
        "epsilon": epsilon,
        "people": people,
        "rehearsals": told.rehearsals,
        "predicted": told.predicted,
        "low": told.low,
        "high": told.high,
        "without_noise": told.without_noise,
    }
    paths[2].write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    mark = {STAMP: [STAMP] * min(_ROWS, people)}
    for path, table in (
        (paths[3], told.model.sample(min(_ROWS, people), seed=0)),
        (paths[4], told.people.slice(0, min(_ROWS, people))),
    ):
        few = table.slice(0, len(mark[STAMP]))
        write_table(few.append_column(STAMP, [mark[STAMP][: few.num_rows]]), path)
    return paths

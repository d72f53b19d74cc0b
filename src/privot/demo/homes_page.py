"""The demo's report: three maps, the numbers, the guarantee in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privot.local import LocalModel
from privot.report.curves import draw_loss
from privot.report.maps import Panel, draw_maps
from privot.report.pages import write_page
from privot.report.style import data_uri, save_png

COMMANDS = """\
privot schema check schema.toml
privot calibrate schema.toml --epsilon 4 -o randomizer.json
privot privatize people.csv --randomizer randomizer.json -o release.parquet
privot fit release.parquet -o model/
privot sample model/ --num-rows 10000 -o synthetic.csv
privot evaluate model/ --against holdout.csv -o report.html"""


@dataclass(frozen=True)
class DemoMetrics:
    """What `metrics.json` holds. Distances are W₂ with the box scaled to [−1, 1]²."""

    epsilon: float
    num_people: int
    w2_learned: float
    w2_released: float
    w2_released_raw: float
    w2_floor: float
    train_seconds: float
    peak_memory_mb: float
    seed: int
    steps: int


def write_demo_report(
    folder: Path,
    model: LocalModel,
    metrics: DemoMetrics,
    private: np.ndarray,
    released: np.ndarray,
    learned: np.ndarray,
) -> None:
    """Write `report.html` and `maps.png`; points are (n, 2) longitudes and latitudes."""
    column, history = model.schema.point_column("home"), model.history
    assert history is not None
    bounds = column.domain.center[:, None] + column.domain.scale[:, None] * np.array([-1.0, 1.0])
    inside = float(((released >= bounds[:, 0]) & (released <= bounds[:, 1])).all(axis=1).mean())
    figure = draw_maps(
        [
            Panel("Private", "where people live: nobody sees this", private),
            Panel(
                "What the curator received",
                f"noised by each owner; {1 - inside:.0%} fall off the map",
                released,
            ),
            Panel("What was learned", "samples, from the reports alone", learned),
        ],
        ((bounds[0, 0], bounds[0, 1]), (bounds[1, 0], bounds[1, 1])),
    )
    save_png(figure, folder / "maps.png", dpi=110)
    scale = model.randomizer.mechanisms["home"].variance ** 0.5 / 2**0.5 * column.domain.scale
    write_page(
        folder / "report.html",
        "demo.html",
        {
            "m": metrics,
            "maps": data_uri(figure, dpi=150),
            "loss": data_uri(draw_loss(history)),
            "promise": model.guarantee.describe(),
            "guarantee": str(model.guarantee),
            "noise": f"{scale[0]:.2f}° of longitude and {scale[1]:.2f}° of latitude",
            "commands": COMMANDS,
        },
    )

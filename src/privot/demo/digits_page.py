"""The page of the demo of images: originals, what leaves the devices, what was learned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from privot.local import LocalModel
from privot.release import Release
from privot.report.curves import draw_loss
from privot.report.image_panels import (
    ImagePanel,
    draw_image_panels,
    reported_images,
    unit_images,
)
from privot.report.pages import write_page
from privot.report.style import data_uri, save_png

COMMANDS = """\
privot schema check schema.toml
privot calibrate schema.toml --epsilon 40 --delta 1e-5 --mechanism gaussian --share label=4
privot privatize pictures/ --randomizer randomizer.json
privot fit release.parquet -o model/
privot sample model/ --num-rows 1000 -o synthetic/
privot evaluate model/ --against holdout/ -o report.html"""


_ACROSS = 10


@dataclass(frozen=True)
class ImageDemoMetrics:
    """What `metrics.json` holds. Distances are sliced W₂ of pixels in [−1, 1], times √64."""

    epsilon: float
    delta: float
    noise: float
    num_people: int
    accuracy_synthetic: float
    accuracy_real: float
    accuracy_attack: float
    distance: float
    floor: float
    train_seconds: float
    seed: int
    steps: int


def write_image_demo_report(
    folder: Path,
    model: LocalModel,
    metrics: ImageDemoMetrics,
    digits: pa.Table,
    release: Release,
    synthetic: pa.Table,
) -> None:
    """Write `report.html` and `digits.png`."""
    column = model.schema.images["image"]
    received, limit = reported_images(release, "image", _ACROSS**2)
    figure = draw_image_panels(
        [
            ImagePanel(
                "Private",
                "what people hold: nobody sees this",
                unit_images(column, "image", digits, _ACROSS**2),
            ),
            ImagePanel("What leaves the devices", "the same, noised one by one", received, limit),
            ImagePanel(
                "What was learned",
                "from the reports alone: a row for each label",
                unit_images(column, "image", by_label(synthetic, "label"), _ACROSS**2),
            ),
        ],
        across=_ACROSS,
    )
    save_png(figure, folder / "digits.png", dpi=110)
    history = model.history
    assert history is not None
    write_page(
        folder / "report.html",
        "image_demo.html",
        {
            "m": metrics,
            "panels": data_uri(figure, dpi=150),
            "loss": data_uri(draw_loss(history)),
            "promise": model.guarantee.describe(),
            "guarantee": str(model.guarantee),
            "diameter": column.domain.diameter(2),
            "keep": model.randomizer.mechanisms["label"].to_dict()["epsilon"],
            "commands": COMMANDS,
        },
    )


def by_label(table: pa.Table, name: str) -> pa.Table:
    """The first ten rows of each label, label by label; fewer where a label has fewer.

    Examples:
        >>> table = pa.table({"label": ["b", "a", "b"], "row": [0, 1, 2]})
        >>> by_label(table, "label").column("row").to_pylist()
        [1, 0, 2]
    """
    labels = table.column(name).to_pylist()
    chosen = [
        row
        for label in sorted(set(labels))
        for row in [i for i, found in enumerate(labels) if found == label][:_ACROSS]
    ]
    return table.take(chosen)

"""What a demo leaves in its folder: a page, a picture, numbers, the model."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from privot.files import replacing_folder
from privot.local import LocalModel
from privot.report.figures import draw_loss
from privot.report.style import data_uri, save_png, write_page

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def write_results(
    folder: Path,
    template: str,
    picture: tuple[str, Figure],
    model: LocalModel,
    metrics: DataclassInstance,
    fields: dict[str, Any],
) -> None:
    """Write `report.html` from the template and its fields, the picture, `metrics.json`, `model/`."""
    name, figure = picture
    assert model.history is not None
    shared = {
        "m": metrics,
        "picture": data_uri(figure, dpi=150),
        "loss": data_uri(draw_loss(model.history)),
        "promise": model.guarantee.describe(),
        "guarantee": str(model.guarantee),
    }
    with replacing_folder(folder) as draft:
        write_page(draft / "report.html", template, shared | fields)
        save_png(figure, draft / name, dpi=110)
        numbers = json.dumps(asdict(metrics), indent=2)
        (draft / "metrics.json").write_text(numbers + "\n", encoding="utf-8")
        model.save(draft / "model")

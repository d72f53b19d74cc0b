"""Pages of one HTML file: what images a model draws; a demo's."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from privot.files import replacing_folder
from privot.local import LocalModel
from privot.release import Release
from privot.report.figures import draw_loss
from privot.report.panels import (
    ImagePanel,
    data_uri,
    draw_image_panels,
    reported_images,
    save_png,
    unit_images,
    write_page,
)

_SAMPLES = 64


def write_image_fit_report(path: Path, model: LocalModel, release: Release) -> None:
    """Write the page of a `model` of images, and the `release` it was learned from.

    All of it comes from the release, and is as private as that.
    """
    synthetic = model.sample(_SAMPLES, seed=0)
    figures = []
    for name, column in model.schema.images.items():
        received, limit = reported_images(release, name)
        one = ImagePanel("One report", "all that one device sends", received, limit, 1)
        many = ImagePanel("Reports", f"some of {len(release):,}", received, limit)
        drawn = ImagePanel("What the model draws", "samples", unit_images(column, name, synthetic))
        figures.append(data_uri(draw_image_panels([one, many, drawn]), dpi=130))
    write_page(
        path,
        "image_fit.html",
        {
            "num_reports": len(release),
            "figures": figures,
            "unit": model.schema.unit,
            "promise": model.guarantee.describe(),
            "guarantee": str(model.guarantee),
            "made_with": model.made_with,
            "loss": None if model.history is None else data_uri(draw_loss(model.history)),
        },
    )


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
    shared = {
        "m": metrics,
        "picture": data_uri(figure, dpi=150),
        "loss": None if model.history is None else data_uri(draw_loss(model.history)),
        "promise": model.guarantee.describe(),
        "guarantee": str(model.guarantee),
    }
    with replacing_folder(folder) as draft:
        write_page(draft / "report.html", template, shared | fields)
        save_png(figure, draft / name, dpi=110)
        numbers = json.dumps(asdict(metrics), indent=2)
        (draft / "metrics.json").write_text(numbers + "\n", encoding="utf-8")
        model.save(draft / "model")

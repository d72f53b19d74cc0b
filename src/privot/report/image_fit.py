"""The page of a fit of images: what was received, what the model draws, what was promised."""

from __future__ import annotations

from pathlib import Path

from privot.local import LocalModel
from privot.release import Release
from privot.report.curves import draw_loss
from privot.report.panels import ImagePanel, draw_image_panels, reported_images, unit_images
from privot.report.style import data_uri, write_page

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

"""What a fit shows: its loss over steps; of images, what was received, and what the model draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from privot.local import LocalModel
from privot.models import History
from privot.release import Release
from privot.report.panels import ImagePanel, draw_image_panels, reported_images, unit_images
from privot.report.style import INK, RECEIVED, data_uri, new_figure, styled, write_page

_SAMPLES = 64


def draw_loss(history: History) -> Figure:
    """Loss over steps, and its running mean."""
    with styled():
        figure = new_figure(7.0, 2.6)
        axis = figure.subplots()
        loss = history["loss"]
        axis.plot(history["step"], loss, color=RECEIVED, linewidth=0.7, alpha=0.8)
        window = max(1, len(loss) // 16)
        smooth = np.convolve(loss, np.ones(window) / window, mode="valid")
        axis.plot(history["step"][window - 1 :], smooth, color=INK, linewidth=1.8)
        axis.set_xlabel("step")
        axis.set_ylabel("entropic cost (nats)")
        # The first steps are far above everything that follows.
        low, high = np.quantile(history["loss"][len(history.rows) // 20 :], [0.0, 1.0])
        margin = 0.05 * (high - low) + 1e-9
        axis.set_ylim(low - margin, high + margin)
    return figure


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

"""Images as what leaves a device, and as what was learned: panels on a dark ground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from privot.release import Release
from privot.release.reports.rows import ReportTable
from privot.report.image_grids import mosaic
from privot.report.style import NIGHT, new_figure, styled
from privot.schema import ArrayColumn
from privot.schema.columns.array import tensor_values

# Inches: a panel's width, the space around panels, the height of title and caption.
_PANEL, _GAP, _HEADING = 3.6, 0.16, 0.72
_PAPER = -0.86  # between black and the page, on a scale from −1 to 1


@dataclass(frozen=True)
class ImagePanel:
    """A title, a line under it, and images (n, h, w) or (n, h, w, 3) in unit pixels.

    Arguments:
        title: What they are.
        caption: A few words; may be empty.
        images: Pixels, from −1 to 1 but for noise.
        limit: Values from −limit to limit go from black to white.
        across: Images in a row, and rows; as many as the figure's by default.
    """

    title: str
    caption: str
    images: np.ndarray
    limit: float = 1.0
    across: int | None = None


def draw_image_panels(panels: Sequence[ImagePanel], across: int = 8) -> Figure:
    """Panels side by side, each of at most `across` rows of as many images."""
    height = panels[0].images.shape[1] / panels[0].images.shape[2]
    with styled():
        wide, tall = _PANEL + _GAP, _PANEL * height
        size = (wide * len(panels) + _GAP, tall + _HEADING + _GAP)
        figure = new_figure(*size)
        figure.set_layout_engine(None)
        figure.set_facecolor(NIGHT)
        for i, panel in enumerate(panels):
            left = (_GAP + i * wide) / size[0]
            axis = figure.add_axes((left, _GAP / size[1], _PANEL / size[0], tall / size[1]))
            axis.set_axis_off()
            columns = panel.across or across
            shown = (panel.images[: columns**2] / panel.limit).clip(-1, 1)
            if shown.shape[3:] == (1,):
                shown = shown[..., 0]
            sheet = (mosaic(shown, columns, _PAPER) + 1) / 2
            axis.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            place: dict[str, Any] = {"transform": axis.transAxes, "va": "bottom", "ha": "left"}
            axis.text(
                0, 1 + 0.34 / tall, panel.title, color="white", fontsize=15, weight="bold", **place
            )
            axis.text(0, 1 + 0.1 / tall, panel.caption, color="#aab4cc", fontsize=11, **place)
    return figure


def unit_images(column: ArrayColumn, name: str, table: pa.Table, most: int = 64) -> np.ndarray:
    """The first images (n, h, w[, c]) of a table of records in unit pixels."""
    raw = tensor_values(table.column(name).slice(0, most))
    return column.to_unit_pixels(raw).reshape(len(raw), *column.shape)


def reported_images(release: Release, name: str, most: int = 64) -> tuple[np.ndarray, float]:
    """The first reported images (n, h, w[, c]) in unit pixels, noise and all, and a limit to show them.

    Of cosine coefficients, the images of which they are the coefficients.
    """
    column = release.schema.images[name]
    few = Release(ReportTable.of(next(release.rows.pieces(16 * most))), release.randomizer)
    points, reported = few.reports(name)
    pixels = column.domain.decode(points[reported][:most].astype(np.float64))
    # Nearly all of noise and image is then between black and white.
    return pixels.reshape(-1, *column.shape), float(1 + 2 * pixels.std())

"""One style for all that is looked at, and panels side by side in it: images as sent and as learned.

The style is of colors and figures, and of pages of one HTML file from templates.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import jinja2
import matplotlib.style as mpl_style
import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import privot
from privot.files import replacing_file
from privot.release import Release
from privot.release.reports.rows import ReportTable
from privot.schema import ArrayColumn
from privot.schema.columns.array import tensor_values

INK = "#1b2333"
MUTED = "#6b7488"
NIGHT = "#0a0f1e"
PRIVATE, RECEIVED, LEARNED = "#4f7cff", "#9aa3b5", "#ff8a3d"

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("privot.report", "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def new_figure(width: float, height: float) -> Figure:
    """A figure of inches `width` × `height` in our style, detached from any window or pyplot state."""
    with styled():
        return Figure(figsize=(width, height), layout="constrained")


def styled() -> AbstractContextManager[None]:
    """The context in which axes must be made to take our style."""
    return mpl_style.context("privot.report.paper")


def data_uri(figure: Figure, dpi: int = 160) -> str:
    """The figure as a PNG inside a URI."""
    buffer = io.BytesIO()
    save_png(figure, buffer, dpi)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def save_png(figure: Figure, path: Path | io.BytesIO, dpi: int = 160) -> None:
    """Write the figure to a file."""
    figure.savefig(path, format="png", dpi=dpi, facecolor=figure.get_facecolor())


def write_page(path: str | Path, template: str, fields: dict[str, Any]) -> None:
    """Fill `templates/<template>` and write the page; an old one survives any failure."""
    page = _TEMPLATES.get_template(template).render(**fields, version=privot.__version__)
    with replacing_file(path) as draft:
        draft.write_text(page, encoding="utf-8")


LIGHT = LinearSegmentedColormap.from_list(
    "night", [NIGHT, "#24346b", "#7c4d9e", "#e2725b", "#ffd27a", "#fffbe6"]
)
# Inches: a panel's width, the space around panels, the height of title and caption, of a group's name.
PANEL, _GAP, _HEADING, _GROUP = 3.6, 0.16, 0.72, 0.5
DIM, FAINT = "#aab4cc", "#3c4766"
_PAPER = -0.86  # between black and the page, on a scale from −1 to 1


class Panel(Protocol):
    """What stands above anything that is looked at."""

    @property
    def title(self) -> str:
        """What it shows."""

    @property
    def caption(self) -> str:
        """A few words on it; may be empty."""

    @property
    def group(self) -> str:
        """What it and its neighbors are, together; may be empty."""


@dataclass(frozen=True)
class ImagePanel:
    """A title, a line under it, and images (n, h, w) or (n, h, w, channels) in unit pixels.

    Arguments:
        title: What they are.
        caption: A few words; may be empty.
        images: Pixels, from −1 to 1 but for noise.
        limit: Values from −limit to limit go from black to white.
        across: Images in a row, and rows; as many as the figure's by default.
        group: What it and its neighbors are, together.
    """

    title: str
    caption: str
    images: np.ndarray
    limit: float = 1.0
    across: int | None = None
    group: str = ""


def draw_image_panels(panels: Sequence[ImagePanel], across: int = 8) -> Figure:
    """Panels side by side, each of at most `across` rows of as many images."""
    with styled():
        figure, axes = dark_axes(panels, panels[0].images.shape[1] / panels[0].images.shape[2])
        for axis, panel in zip(axes, panels, strict=True):
            columns = panel.across or across
            shown = (panel.images[: columns**2] / panel.limit).clip(-1, 1)
            if shown.shape[3:] == (1,):
                shown = shown[..., 0]
            sheet = (mosaic(shown, columns, _PAPER) + 1) / 2
            axis.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    return figure


def mosaic(images: np.ndarray, num_columns: int, paper: float = 1.0) -> np.ndarray:
    """The images (n, h, w) or (n, h, w, 3) in rows of `num_columns`, a pixel of `paper` between them."""
    count, height, width = images.shape[:3]
    num_rows = math.ceil(count / num_columns)
    size = (num_rows * (height + 1) - 1, num_columns * (width + 1) - 1)
    sheet = np.full((*size, *images.shape[3:]), paper)
    for index, image in enumerate(images):
        top, left = (index // num_columns) * (height + 1), (index % num_columns) * (width + 1)
        sheet[top : top + height, left : left + width] = image
    return sheet


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


def dark_axes(
    panels: Sequence[Panel], height: float, margin: float = 0.0, across: float = PANEL
) -> tuple[Figure, list[Axes]]:
    """Axes `height` times as tall as wide, each under its panel's title and caption."""
    wide, tall = across + _GAP, across * height
    groups = [panel.group for panel in panels]
    heading = _HEADING + (_GROUP if any(groups) else 0.0)
    left, bottom = max(_GAP, margin), max(_GAP, 0.6 * margin)
    size = (left + wide * len(panels) - _GAP + left, tall + heading + bottom)
    figure = new_figure(*size)
    figure.set_layout_engine(None)
    figure.set_facecolor(NIGHT)
    shrink = min(1.0, 0.15 + 0.85 * across / PANEL)
    for i, panel in enumerate(panels):
        place = ((left + i * wide) / size[0], bottom / size[1], across / size[0], tall / size[1])
        axis = figure.add_axes(place)
        axis.set_axis_off()
        words: dict[str, Any] = {"transform": axis.transAxes, "va": "bottom", "ha": "left"}
        axis.text(
            0,
            1 + 0.34 / tall,
            panel.title,
            color="white",
            fontsize=15 * shrink,
            weight="bold",
            **words,
        )
        axis.text(0, 1 + 0.1 / tall, panel.caption, color=DIM, fontsize=11 * shrink, **words)
    for name, members in groupby(range(len(groups)), key=groups.__getitem__):
        first, *_, last = [*members] * 2
        if name:
            ends = [left + first * wide, left + last * wide + across]
            y = (tall + bottom + _HEADING + 0.04) / size[1]
            line = Line2D(
                [x / size[0] for x in ends], [y, y], color=FAINT, linewidth=1.2, gid="group"
            )
            figure.add_artist(line)
            figure.text(ends[0] / size[0], y + 0.08 / size[1], name, color="#ffd27a",
                        fontsize=13 * shrink, va="bottom")  # fmt: skip
    return figure, figure.axes

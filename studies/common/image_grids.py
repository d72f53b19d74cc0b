"""Images side by side: one tile a method, each a small grid of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from privot.report.panels import INK, MUTED, mosaic, new_figure, styled

_TITLE_INCHES = 0.42


@dataclass(frozen=True)
class Tile:
    """A title, a line under it, and images (n, height, width), gray, or (n, height, width, 3).

    Arguments:
        title: Name of the method.
        caption: A few words or a number; may be empty.
        images: What it made.
        limit: Values −limit … limit go from black to white.
    """

    title: str
    caption: str
    images: np.ndarray
    limit: float = 1.0


def draw_tiles(
    tiles: Sequence[Tile],
    *,
    across: int,
    num_rows: int = 6,
    num_columns: int = 4,
    inches: float = 2.0,
    paper: float = 1.0,
) -> Figure:
    """Tiles in rows of `across`, each of at most num_rows · num_columns images, `inches` wide.

    `paper` is the gray between images, from −1 (black) to 1 (white).
    """
    down = math.ceil(len(tiles) / across)
    tall = inches * num_rows / num_columns
    with styled():
        figure = new_figure(across * inches * 1.06, down * (tall + _TITLE_INCHES) + 0.05)
        figure.set_facecolor("white")
        figure.set_layout_engine(None)
        share = _TITLE_INCHES / (tall + _TITLE_INCHES)
        figure.subplots_adjust(
            left=0.005, right=0.995, bottom=0.006, top=1 - share / down, wspace=0.06,
            hspace=_TITLE_INCHES / tall,
        )  # fmt: skip
        axes = np.atleast_1d(figure.subplots(down, across)).ravel()
        for axis in axes:
            axis.set_axis_off()
        for axis, tile in zip(axes, tiles, strict=False):
            shown = tile.images[: num_rows * num_columns] / tile.limit
            sheet = (mosaic(shown.clip(-1, 1), num_columns, paper) + 1) / 2
            axis.imshow(
                sheet, cmap="gray", vmin=0, vmax=1, interpolation="antialiased", aspect="equal"
            )
            place = {"transform": axis.transAxes, "va": "bottom", "ha": "left"}
            axis.text(
                0, 1.0 + 0.20 / tall, tile.title, color=INK, fontsize=9.5, weight="bold", **place
            )
            axis.text(0, 1.0 + 0.04 / tall, tile.caption, color=MUTED, fontsize=8, **place)
    return figure

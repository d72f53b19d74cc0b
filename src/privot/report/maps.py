"""Maps of points: how many people live where, as light on a dark sea."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from scipy.ndimage import gaussian_filter

from privot.report.style import NIGHT, new_figure, styled

_LIGHT = LinearSegmentedColormap.from_list(
    "night", [NIGHT, "#24346b", "#7c4d9e", "#e2725b", "#ffd27a", "#fffbe6"]
)
_CELLS_ACROSS = 130
# Inches: a panel's width, the space around panels, the height of title and caption.
_PANEL, _GAP, _HEADING = 3.6, 0.16, 0.72


@dataclass(frozen=True)
class Panel:
    """One map: a title, a line under it, and points (n, 2) as longitude and latitude."""

    title: str
    caption: str
    points: np.ndarray


def draw_maps(
    panels: Sequence[Panel],
    bounds: tuple[tuple[float, float], tuple[float, float]],
    geographic: bool = True,
) -> Figure:
    """Maps side by side, on one color scale: the share of people in each cell.

    Arguments:
        panels: What to draw; the first one sets the brightness.
        bounds: Limits of the two coordinates.
        geographic: Whether they are degrees of longitude and latitude; else panels are square.
    """
    (west, east), (south, north) = bounds
    # A degree of longitude is shorter than one of latitude by the cosine of the latitude.
    cosine = np.cos(np.deg2rad((south + north) / 2))
    stretch = 1 / cosine if geographic else (east - west) / (north - south)
    height = (north - south) / (east - west) * stretch
    cells = (_CELLS_ACROSS, round(_CELLS_ACROSS * height))
    with styled():
        wide, tall = _PANEL + _GAP, _PANEL * height
        size = (wide * len(panels) + _GAP, tall + _HEADING + _GAP)
        figure = new_figure(*size)
        figure.set_layout_engine(None)
        figure.set_facecolor(NIGHT)
        axes = [
            figure.add_axes((
                (_GAP + i * wide) / size[0], _GAP / size[1], _PANEL / size[0], tall / size[1]
            ))
            for i in range(len(panels))
        ]  # fmt: skip
        images = [_light(panel.points, bounds, cells) for panel in panels]
        brightest = np.quantile(images[0], 0.999)
        for axis, panel, image in zip(axes, panels, images, strict=True):
            axis.imshow(
                (image / brightest).clip(0, 1).T ** 0.42,
                origin="lower",
                extent=(west, east, south, north),
                aspect=stretch,
                cmap=_LIGHT,
                vmin=0,
                vmax=1,
                interpolation="bilinear",
            )
            _label(axis, panel)
    return figure


def _light(
    points: np.ndarray, bounds: Sequence[tuple[float, float]], cells: tuple[int, int]
) -> np.ndarray:
    counts, _, _ = np.histogram2d(points[:, 0], points[:, 1], bins=cells, range=bounds)
    return np.asarray(gaussian_filter(counts, 1.0)) / len(points)


def _label(axis: Axes, panel: Panel) -> None:
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.set_title(panel.title, color="white", fontsize=15, fontweight="bold", loc="left", pad=25)
    axis.text(
        0, 1.02, panel.caption, transform=axis.transAxes, color="#aab4cc", fontsize=11, va="bottom"
    )

"""Clouds of points side by side, with the curve they should lie on drawn as a dotted line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from privot.report.panels import NIGHT, new_figure, styled

_MOST_POINTS = 8000


@dataclass(frozen=True)
class Cloud:
    """One panel: a title, a line under it, and points (n, 2) of one color."""

    title: str
    caption: str
    color: str
    points: np.ndarray


def draw_clouds(clouds: Sequence[Cloud], curve: np.ndarray, margin: float) -> Figure:
    """The first 8 000 points of each cloud, on one scale.

    Arguments:
        clouds: What to draw, from left to right.
        curve: Corners (m, 2) of the dotted line; the panels are centered on it.
        margin: How far the panels reach beyond it.
    """
    low, high = curve.min(axis=0), curve.max(axis=0)
    middle, half = (low + high) / 2, float((high - low).max()) / 2 + margin
    with styled():
        figure = new_figure(3.6 * len(clouds), 4.3)
        figure.set_facecolor(NIGHT)
        figure.set_layout_engine(None)
        figure.subplots_adjust(left=0.01, right=0.99, bottom=0.02, top=0.83, wspace=0.03)
        axes = np.atleast_1d(figure.subplots(1, len(clouds)))
        for axis, cloud in zip(axes, clouds, strict=True):
            axis.set_axis_off()
            shown = cloud.points[:_MOST_POINTS]
            axis.plot(*shown.T, ".", color=cloud.color, markersize=2.6, alpha=0.55, mew=0)
            axis.plot(*curve.T, color="white", linewidth=1.3, linestyle=(0, (1, 2.5)))
            axis.set_xlim(middle[0] - half, middle[0] + half)
            axis.set_ylim(middle[1] - half, middle[1] + half)
            axis.set_aspect("equal")
            place = {"transform": axis.transAxes, "va": "bottom"}
            axis.text(0, 1.09, cloud.title, color="white", fontsize=17, weight="bold", **place)
            axis.text(0, 1.02, cloud.caption, color="#aab4cc", fontsize=13, **place)
    return figure

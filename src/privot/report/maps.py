"""Maps side by side: people as light, on axes of degrees and kilometers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.ndimage import gaussian_filter

from privot.report.panels import DIM, FAINT, LIGHT, PANEL, dark_axes, styled

KILOMETERS = 6371.0 * math.pi / 180  # a degree of latitude
_CELLS_ACROSS = 130
_MARGIN = 0.42  # inches, for the numbers on axes
_MOST_TICKS = 7


@dataclass(frozen=True)
class Map:
    """One map: a title, a line under it, and points (n, 2) as longitude and latitude.

    Neighbors of one `group` stand under its name.
    """

    title: str
    caption: str
    points: np.ndarray
    group: str = ""


def draw_maps(
    panels: Sequence[Map],
    bounds: tuple[tuple[float, float], tuple[float, float]],
    geographic: bool = True,
) -> Figure:
    """Maps side by side, on one color scale: the share of people in each cell.

    Places on earth have degrees on the first map's axes, and kilometers from the south-west on the last
    one's.

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
    lights = [_light(panel.points, bounds, cells) for panel in panels]
    brightest = np.quantile(lights[0], 0.999)
    margin = _MARGIN if geographic else 0.0
    with styled():
        figure, axes = dark_axes(panels, height, margin, _map_width(len(panels)))
        for axis, light in zip(axes, lights, strict=True):
            axis.imshow(
                (light / brightest).clip(0, 1).T ** 0.42, origin="lower", aspect=stretch,
                extent=(west, east, south, north), cmap=LIGHT, vmin=0, vmax=1,
                interpolation="bilinear",
            )  # fmt: skip
        if geographic:
            _scale(
                axes[0], "left", _degrees(west, east, "W", "E"), _degrees(south, north, "S", "N")
            )
            per_degree = KILOMETERS * np.array([cosine, 1.0])
            ends = np.array([east - west, north - south]) * per_degree
            across, up = (
                [(start + km / per, f"{km:g}") for km in _round_numbers(0.0, end)]
                for start, end, per in zip((west, south), ends, per_degree, strict=True)
            )
            _scale(
                axes[-1], "right", [(x, f"{km} km" if km == "0" else km) for x, km in across], up
            )
    return figure


def _map_width(count: int) -> float:
    """Inches: many are smaller, so that a page holds them."""
    return PANEL if count <= 3 else 2.5


def _degrees(low: float, high: float, below: str, above: str) -> list[tuple[float, str]]:
    """Places of whole degrees, and what to call them."""
    places = _round_numbers(low, high)
    return [(x, f"{abs(x):g}° {above if x > 0 else below}" if x else "0°") for x in places]


def _round_numbers(low: float, high: float) -> list[float]:
    """Round numbers strictly between two, evenly spaced.

    Examples:
        >>> _round_numbers(-8.7, 1.8)
        [-8.0, -6.0, -4.0, -2.0, 0.0]
    """
    ticker = MaxNLocator(nbins=_MOST_TICKS, steps=[1, 2, 5, 10])
    return [float(x) for x in ticker.tick_values(low, high) if low <= x <= high]


def _scale(
    axis: Axes, side: str, across: list[tuple[float, str]], up: list[tuple[float, str]]
) -> None:
    """Numbers at the bottom and on one side of a map."""
    axis.set_axis_on()
    axis.tick_params(colors=DIM, labelsize=7.5, length=2.5, color=FAINT, pad=2)
    axis.tick_params(axis="y", left=side == "left", right=side == "right",
                     labelleft=side == "left", labelright=side == "right")  # fmt: skip
    axis.set_xticks(*zip(*across, strict=True))
    axis.set_yticks(*zip(*up, strict=True))
    for spine in axis.spines.values():
        spine.set_visible(False)


def _light(
    points: np.ndarray, bounds: Sequence[tuple[float, float]], cells: tuple[int, int]
) -> np.ndarray:
    counts, _, _ = np.histogram2d(points[:, 0], points[:, 1], bins=cells, range=bounds)
    return np.asarray(gaussian_filter(counts, 1.0)) / len(points)

"""Trends of a model that moves: small multiples with bands, a panel for each column, and their page."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privot.errors import PrivotError
from privot.local import WaveModel
from privot.local.waves.trends import Trend
from privot.report.panels import INK, LEARNED, PRIVATE, data_uri, new_figure, styled, write_page

_ACROSS, _WIDTH, _HEIGHT = 3, 3.6, 2.5
_MOST_VALUES, _MOST_PANELS = 5, 24
_COLORS = (LEARNED, PRIVATE, "#2a9d6f", "#9b5de5", "#8a8f98")
_MOST_TICKS = 5


def draw_trends(
    model: WaveModel, truth: dict[str, Sequence[float]] | None = None, *, level: float = 0.95
) -> Figure:
    """A panel for each column: the mean of a number, the shares of a category's first values.

    Arguments:
        model: By [`fit_waves`][privot.local.waves.wave_fit.fit_waves].
        truth: Of some trends, by their names (`uses = yes`, `mean of age`), to draw beside; a picture
            with a real truth is **not private**.
        level: Of the bands.
    """
    groups = [group for name in model.schema.table_columns if (group := _of(model, name, level))]
    groups = groups[:_MOST_PANELS]
    across = min(_ACROSS, len(groups))
    down = ceil(len(groups) / across)
    with styled():
        figure = new_figure(_WIDTH * across, _HEIGHT * down)
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for axis, group in zip(axes, groups, strict=False):
            draw_trend(axis, group, truth or {})
        for axis in axes[len(groups) :]:
            axis.remove()
    return figure


def draw_trend(axis: Axes, trends: Sequence[Trend], truth: dict[str, Sequence[float]]) -> None:
    """Trends of one column, with their bands and their truth, where it is known."""
    places = np.arange(len(trends[0].times))
    for trend, color in zip(trends, _COLORS, strict=False):
        axis.fill_between(places, trend.low, trend.high, color=color, alpha=0.22, linewidth=0)
        axis.plot(places, trend.estimate, color=color, linewidth=1.8, label=trend.name)
        if trend.name in truth:
            axis.plot(places, truth[trend.name], color=INK, linewidth=1, linestyle="--")
    ticks = np.unique(np.linspace(0, len(places) - 1, _MOST_TICKS).round().astype(int))
    axis.set_xticks(ticks, [trends[0].times[tick] for tick in ticks], fontsize=7)
    axis.legend(fontsize=7, loc="best")


def write_wave_report(path: str | Path, model: WaveModel) -> None:
    """Write the page of a model that moves: its trends, and which columns changed suddenly.

    All of it comes from the releases, and is as private as they are.
    """
    changes = []
    for name in model.schema.table_columns:
        try:
            changes.append(model.change_point(name))
        except PrivotError:  # two waves, or a column that has no numbers to follow
            continue
    write_page(
        path,
        "waves.html",
        {
            "figure": data_uri(draw_trends(model), dpi=130),
            "waves": len(model.times),
            "first": model.times[0],
            "last": model.times[-1],
            "people": sum(model.people),
            "changes": changes,
            "promise": model.guarantee.describe(),
            "guarantee": str(model.guarantee),
            "unit": model.schema.unit,
        },
    )


def _of(model: WaveModel, name: str, level: float) -> list[Trend]:
    """Trends of one column; none of one that has neither a mean nor named values."""
    try:
        return [model.trend(name, level=level)]
    except PrivotError:
        labels = model.schema.coded[name].labels if name in model.schema.coded else ()
        return [model.trend(name, label, level=level) for label in labels[:_MOST_VALUES]]

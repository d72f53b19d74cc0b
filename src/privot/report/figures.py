"""What a model draws, at a glance: a panel for each column, alone or against real records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privot.models import History, Model
from privot.release import as_table
from privot.report.bars import bars_of
from privot.report.panels import (
    INK,
    LEARNED,
    LIGHT,
    PRIVATE,
    RECEIVED,
    mosaic,
    new_figure,
    styled,
    unit_images,
)
from privot.schema import Schema

_ACROSS, _MOST_PANELS, _IMAGES = 4, 24, 36
_WIDTH, _HEIGHT, _CELLS = 3.6, 2.6, 60
_BARS: dict[str, Any] = {"color": PRIVATE, "alpha": 0.35}


def plot(model: Model, real: Any = None, *, num_rows: int = 10_000, seed: int = 0) -> Figure:
    """Draw records from a model, and show every column of them: bars, densities, maps, images.

    Of more than 24 panels, the first. Without real records the figure is as private as the model; with
    them it shows them, and is **not private**.

    Arguments:
        model: What is sampled.
        real: Real records to show beside: a pandas, polars or pyarrow table, or a dict of columns.
        num_rows: How many records to draw.
        seed: Of the draw.

    Returns:
        A figure; a notebook shows it, `figure.savefig("model.png")` writes it.

    Raises:
        PrivotError: for real records that do not fit the model's schema.
    """
    tables = {"synthetic": model.sample(num_rows, seed=seed)}
    if real is not None:
        tables["real"] = as_table(real)
        model.schema.check_table(tables["real"])
    panels = _panels(model.schema, tables)[:_MOST_PANELS]
    across = min(_ACROSS, len(panels))
    down = ceil(len(panels) / across)
    with styled():
        figure = new_figure(_WIDTH * across, _HEIGHT * down)
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for axis, (title, draw) in zip(axes, panels, strict=False):
            axis.set_title(title, fontsize=10, fontweight="bold")
            draw(axis)
        for axis in axes[len(panels) :]:
            axis.remove()
    return figure


def _panels(
    schema: Schema, tables: dict[str, pa.Table]
) -> list[tuple[str, Callable[[Axes], None]]]:
    """Titles of panels, and what draws each: of images and of points in the plane, one a table."""
    panels: list[tuple[str, Callable[[Axes], None]]] = []
    several = len(tables) > 1
    for name in schema.columns:
        each = {f"{name}, {whose}" if several else name: t for whose, t in tables.items()}
        if name in schema.images:
            images = {t: unit_images(schema.images[name], name, each[t], _IMAGES) for t in each}
            panels += [(title, partial(_draw_images, shown)) for title, shown in images.items()]
        elif name in schema.vectors:
            column = schema.vectors[name]
            parts = column.table_columns(name)
            points = {whose: column.encode_points(name, table) for whose, table in tables.items()}
            points = {whose: p[~np.isnan(p).any(axis=1)] for whose, p in points.items()}
            if len(parts) == 2:
                drawn = zip(each, points.values(), strict=True)
                panels += [(title, partial(_draw_plane, parts, points, p)) for title, p in drawn]
            else:
                values = [
                    {whose: p[:, j] for whose, p in points.items()} for j in range(len(parts))
                ]
                panels += [
                    (part, partial(_draw_density, column))
                    for part, column in zip(parts, values, strict=True)
                ]
        else:
            bars = partial(_draw_bars, schema, name, tables)
            panels.append((name, bars))
    return panels


def _draw_images(images: np.ndarray, axis: Axes) -> None:
    axis.set_axis_off()
    shown = images[..., 0] if images.shape[3:] == (1,) else images
    sheet = (mosaic(shown.clip(-1, 1), round(_IMAGES**0.5)) + 1) / 2
    axis.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")


def _draw_bars(schema: Schema, name: str, tables: dict[str, pa.Table], axis: Axes) -> None:
    real = tables.get("real")
    drawn = tables["synthetic"]
    bars = bars_of(schema, name, drawn, real)
    places = np.arange(len(bars))
    if real is not None:
        axis.barh(places, [bar.real or 0.0 for bar in bars], **_BARS, label="real")
    thin = 0.35 if real is not None else 0.8
    axis.barh(places, [bar.synthetic for bar in bars], thin, color=LEARNED, label="synthetic")
    axis.set_yticks(places, [bar.label for bar in bars], fontsize=7)
    axis.invert_yaxis()


def _draw_plane(
    parts: tuple[str, ...], points: dict[str, np.ndarray], shown: np.ndarray, axis: Axes
) -> None:
    """Shares of a grid's cells, on the scale and in the limits of all tables."""
    everybody = np.concatenate(list(points.values()))
    low, high = everybody.min(axis=0), everybody.max(axis=0)
    limits = [(low[0], high[0]), (low[1], high[1])]
    cells, *edges = np.histogram2d(shown[:, 0], shown[:, 1], bins=_CELLS, range=limits)
    axis.pcolormesh(*edges, cells.T, cmap=LIGHT)
    axis.set_xlabel(parts[0])
    axis.set_ylabel(parts[1])


def _draw_density(values: dict[str, np.ndarray], axis: Axes) -> None:
    everybody = np.concatenate(list(values.values()))
    bins = np.linspace(everybody.min(), everybody.max(), 41).tolist()
    if "real" in values:
        axis.hist(values["real"], bins, density=True, **_BARS, label="real")
    outline: dict[str, Any] = {"histtype": "step", "color": LEARNED, "linewidth": 1.6}
    axis.hist(values["synthetic"], bins, density=True, **outline, label="synthetic")
    axis.set_yticks([])
    axis.legend(fontsize=8)


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

"""Figures of a model's columns and trends, and HTML pages of fits, demos and simulated campaigns.

Every file of a simulated campaign (page, picture, tables, numbers) is marked as SIMULATED.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privot.core.errors import PrivotError
from privot.core.files import replacing_folder
from privot.forecast.simulation import PLACES, SERVERS, STAMP, TRUSTED, SimulatedCampaign, TrustPlan
from privot.local import LocalModel, WaveModel
from privot.local.waves.wave_model import Trend
from privot.models import History, Model
from privot.privacy.rounding import at_most
from privot.randomizer import Release
from privot.report import panels
from privot.report.charts import bars_of
from privot.schema import Schema
from privot.tables.files import as_table, write_table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Files of a comparison of places of trust, and of a simulated campaign.
TRUST_FILES = tuple(f"{STAMP}-{name}" for name in ("report.html", "picture.png", "numbers.json"))
SIMULATED_FILES = (*TRUST_FILES, f"{STAMP}-with-noise.csv", f"{STAMP}-without-noise.csv")
ERROR_NAMES = {  # by the keys of `privot.forecast.simulation.Errors`
    "one_way": "a column's shares (total variation)",
    "two_way": "shares of a pair of columns (total variation)",
    "W2": "places (W₂, where the bounds are -1 and 1)",
}
_ACROSS, _MAX_PANELS = 4, 24  # most panels in a row, and in a figure of all columns
_WIDTH, _HEIGHT = 3.6, 2.6  # size of a panel, in inches
_IMAGES, _BINS, _CELLS = 36, 40, 60  # in a panel: images, bins, cells along a side of a map
_SAMPLES = 64  # sampled images on the page of a fit
_ROWS = 10_000  # most rows of the tables of a simulated campaign
_BARS: dict[str, Any] = {"color": panels.PRIVATE, "alpha": 0.35}


def plot(model: Model, real: Any = None, *, num_rows: int = 10_000, seed: int = 0) -> Figure:
    """Sample records from a model, and plot every column: bars, densities, maps, images.

    At most 24 panels are drawn. Without real records the figure is as private as the model; with real
    records it is **not private**.

    Arguments:
        model: The model to sample.
        real: Real records to compare with: a pandas, polars or pyarrow table, or a dict of columns.
        num_rows: Number of records to sample.
        seed: Seed of the sample.

    Returns:
        A figure: a notebook shows it, `figure.savefig("model.png")` writes it.

    Raises:
        PrivotError: if the real records do not fit the model's schema.
    """
    tables = {"synthetic": model.sample(num_rows, seed=seed)}
    if real is not None:
        tables["real"] = as_table(real)
        model.schema.check_table(tables["real"])
    plots = _panels(model.schema, tables)[:_MAX_PANELS]
    with panels.styled():
        figure, axes = panels.grid_axes(len(plots), _ACROSS, _WIDTH, _HEIGHT)
        for axis, (title, draw) in zip(axes, plots, strict=True):
            axis.set_title(title, fontsize=10, fontweight="bold")
            draw(axis)
    return figure


def _panels(
    schema: Schema, tables: dict[str, pa.Table]
) -> list[tuple[str, Callable[[Axes], None]]]:
    """Return the title and the drawing function of each panel.

    Images and points in the plane have a panel for each table, other columns one for all tables.
    """
    plots: list[tuple[str, Callable[[Axes], None]]] = []
    for name in schema.columns:
        titles = {kind: f"{name}, {kind}" if len(tables) > 1 else name for kind in tables}
        if name in schema.images:
            for kind, table in tables.items():
                images = panels.unit_images(schema.images[name], name, table, _IMAGES)
                plots.append((titles[kind], partial(_draw_images, images)))
        elif name in schema.vectors:
            column = schema.vectors[name]
            parts = column.table_columns(name)
            all_points = {
                kind: panels.present_points(column, name, t) for kind, t in tables.items()
            }
            if len(parts) == 2:
                limits = panels.limits_of(list(all_points.values()))
                for kind, points in all_points.items():
                    plots.append((titles[kind], partial(_draw_plane, parts, limits, points)))
                continue
            for number, part in enumerate(parts):
                values = {kind: points[:, number] for kind, points in all_points.items()}
                plots.append((part, partial(_draw_density, values)))
        else:
            plots.append((name, partial(_draw_bars, schema, name, tables)))
    return plots


def _draw_images(images: np.ndarray, axis: Axes) -> None:
    axis.set_axis_off()
    panels.show_images(axis, images, round(_IMAGES**0.5), paper=1.0)


def _draw_bars(schema: Schema, name: str, tables: dict[str, pa.Table], axis: Axes) -> None:
    real = tables.get("real")
    bars = bars_of(schema, name, tables["synthetic"], real)
    rows = np.arange(len(bars))
    if real is not None:
        axis.barh(rows, [bar.real or 0.0 for bar in bars], **_BARS, label="real")
    height = 0.35 if real is not None else 0.8
    axis.barh(
        rows, [bar.synthetic for bar in bars], height, color=panels.LEARNED, label="synthetic"
    )
    axis.set_yticks(rows, [bar.label for bar in bars], fontsize=7)
    axis.invert_yaxis()


def _draw_plane(
    parts: tuple[str, ...], limits: list[tuple[float, float]], points: np.ndarray, axis: Axes
) -> None:
    """Draw the counts of points (n, 2) in the cells of a grid between the limits."""
    cells, *edges = np.histogram2d(points[:, 0], points[:, 1], bins=_CELLS, range=limits)
    axis.pcolormesh(*edges, cells.T, cmap=panels.LIGHT)
    axis.set_xlabel(parts[0])
    axis.set_ylabel(parts[1])


def _draw_density(values: dict[str, np.ndarray], axis: Axes) -> None:
    all_values = np.concatenate(list(values.values()))
    bins = np.linspace(all_values.min(), all_values.max(), _BINS + 1).tolist()
    if "real" in values:
        axis.hist(values["real"], bins, density=True, **_BARS, label="real")
    outline: dict[str, Any] = {"histtype": "step", "color": panels.LEARNED, "linewidth": 1.6}
    axis.hist(values["synthetic"], bins, density=True, **outline, label="synthetic")
    axis.set_yticks([])
    axis.legend(fontsize=8)


def draw_loss(history: History) -> Figure:
    """Draw the training loss of each step, and its running mean."""
    with panels.styled():
        figure = panels.new_figure(7.0, 2.6)
        axis = figure.subplots()
        loss = history["loss"]
        axis.plot(history["step"], loss, color=panels.RECEIVED, linewidth=0.7, alpha=0.8)
        window = max(1, len(loss) // 16)
        smooth = np.convolve(loss, np.ones(window) / window, mode="valid")
        axis.plot(history["step"][window - 1 :], smooth, color=panels.INK, linewidth=1.8)
        axis.set_xlabel("step")
        axis.set_ylabel("entropic cost (nats)")
        # The losses of the first twentieth of the steps, far above the others, are cut off.
        low, high = np.quantile(loss[len(loss) // 20 :], [0.0, 1.0])
        margin = 0.05 * (high - low) + 1e-9
        axis.set_ylim(low - margin, high + margin)
    return figure


def write_image_fit_report(path: Path, model: LocalModel, release: Release) -> None:
    """Write the page about a model of images and its release; the page is as private as the release."""
    synthetic = model.sample(_SAMPLES, seed=0)
    figures = []
    for name, column in model.schema.images.items():
        image_panels = []
        if name in release.randomizer.splits:  # otherwise reports are candidates, not images
            received, limit = panels.reported_images(release, name)
            one_report = panels.ImagePanel(
                "One report", "all that one device sends", received, limit, 1
            )
            image_panels = [
                one_report,
                panels.ImagePanel("Reports", f"some of {len(release):,}", received, limit),
            ]
        images = panels.unit_images(column, name, synthetic)
        image_panels.append(panels.ImagePanel("What the model draws", "samples", images))
        figures.append(panels.data_uri(panels.draw_image_panels(image_panels), dpi=130))
    fields = {
        "num_reports": len(release),
        "figures": figures,
        "reported": not release.randomizer.candidates,
        "unit": model.schema.unit,
        "made_with": model.made_with,
    }
    panels.write_page(path, "image_fit.html", fields | _promise_and_loss(model))


def _promise_and_loss(model: LocalModel) -> dict[str, str | None]:
    """Return a page's fields about a model: its guarantee, also in sentences, and its loss figure."""
    return {
        "promise": model.guarantee.describe(),
        "guarantee": str(model.guarantee),
        "loss": None if model.history is None else panels.data_uri(draw_loss(model.history)),
    }


def write_results(
    folder: Path,
    template: str,
    picture: tuple[str, Figure],
    model: LocalModel,
    metrics: "DataclassInstance",
    fields: dict[str, Any],
) -> None:
    """Write a demo's folder: page, picture (file name and figure), `metrics.json` and model."""
    name, figure = picture
    shared = {"m": metrics, "picture": panels.data_uri(figure, dpi=150)} | _promise_and_loss(model)
    with replacing_folder(folder) as draft:
        panels.write_page(draft / "report.html", template, shared | fields)
        panels.save_png(figure, draft / name, dpi=110)
        _write_json(draft / "metrics.json", asdict(metrics))
        model.save(draft / "model")


def stamped(figure: Figure) -> Figure:
    """Write SIMULATED across a figure, and return the figure."""
    words: dict[str, Any] = {"ha": "center", "va": "center", "color": "#c8362f", "weight": "bold"}
    figure.text(0.5, 0.5, STAMP, rotation=25, fontsize=54, alpha=0.22, gid="stamp", **words)
    return figure


def write_simulated_campaign(
    folder: Path, campaign: SimulatedCampaign, epsilon: float, people: int
) -> list[Path]:
    """Write all files of a simulated campaign into a folder; return their paths."""
    model, records, rehearsals = campaign.model, campaign.people, campaign.rehearsals
    figure = stamped(plot(model, records.slice(0, _ROWS), num_rows=_ROWS))
    paths = [folder / name for name in SIMULATED_FILES]
    *stamped_paths, with_noise, without_noise = paths
    settings = {"epsilon": epsilon, "people": people, "rehearsals": rehearsals}
    kinds = ("predicted", "low", "high", "without_noise")
    errors = {kind: getattr(campaign, kind) for kind in kinds}
    names = {key: name for key, name in ERROR_NAMES.items() if key in campaign.predicted}
    fields = {
        "rows": [(name, *(errors[kind][key] for kind in kinds)) for key, name in names.items()],
        "unit": model.schema.unit,
        "guarantee": str(model.guarantee),
    }
    _write_stamped(stamped_paths, "simulated.html", figure, settings | fields, settings | errors)
    rows = min(_ROWS, people)
    tables = {with_noise: model.sample(rows, seed=0), without_noise: records.slice(0, rows)}
    for path, table in tables.items():
        write_table(table.append_column(STAMP, [[STAMP] * table.num_rows]), path)
    return paths


def _write_stamped(
    paths: Sequence[Path],
    template: str,
    figure: Figure,
    fields: dict[str, Any],
    numbers: dict[str, Any],
) -> None:
    """Write page, picture and numbers of a simulation, marked as SIMULATED."""
    page, picture, json_file = paths
    panels.write_page(
        page, template, fields | {"stamp": STAMP, "figure": panels.data_uri(figure, dpi=130)}
    )
    panels.save_png(figure, picture, dpi=130)
    _write_json(json_file, {"stamp": STAMP} | numbers)


def _write_json(path: Path, fields: dict[str, Any]) -> None:
    path.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")


def draw_trust(plan: TrustPlan) -> Figure:
    """Draw predicted errors against ε: a line for each place of trust, and one without noise."""
    with panels.styled():
        figure = panels.new_figure(6.4, 4.0)
        axis = figure.subplots()
        for where, color in zip(
            PLACES, (panels.RECEIVED, panels.PRIVATE, panels.LEARNED, panels.INK), strict=True
        ):
            rows = [row for row in plan.rows if row.where == where and not row.refused]
            errors = [row.predicted[plan.measure] for row in rows]
            axis.plot(
                [row.epsilon for row in rows], errors, "o-", color=color, label=TRUSTED[where]
            )
        axis.axhline(
            plan.without_noise[plan.measure],
            color=panels.MUTED,
            linestyle=":",
            label="without noise",
        )
        axis.set(xscale="log", yscale="log", xlabel="ε", ylabel=ERROR_NAMES[plan.measure])
        ticks = sorted({row.epsilon for row in plan.rows})
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.xaxis.minorticks_off()
        axis.yaxis.set_major_formatter("{x:g}")
        axis.legend(fontsize=8)
    return stamped(figure)


def write_trust(folder: Path, plan: TrustPlan) -> list[Path]:
    """Write page, picture and numbers of a comparison of places of trust; return their paths."""
    figure, paths = draw_trust(plan), [folder / name for name in TRUST_FILES]
    name = ERROR_NAMES[plan.measure]
    fields = {"plan": plan, "name": name, "trusted": TRUSTED, "servers": SERVERS}
    fields |= {"at_most": at_most}
    _write_stamped(paths, "trust.html", figure, fields, asdict(plan))
    return paths


# Trends over time.

_TRENDS_ACROSS, _TREND_HEIGHT = 3, 2.5  # panels in a row; height of a panel, in inches
_MAX_CATEGORIES, _MAX_TREND_TICKS = 5, 5  # in a panel
_COLORS = (panels.LEARNED, panels.PRIVATE, "#2a9d6f", "#9b5de5", "#8a8f98")


def draw_trends(model: WaveModel) -> Figure:
    """Draw a panel for each column: the mean of numbers, or the shares of the first five categories."""
    by_column = (_trends_of(model, name) for name in model.schema.table_columns)
    groups = [trends for trends in by_column if trends][:_MAX_PANELS]
    with panels.styled():
        figure, axes = panels.grid_axes(len(groups), _TRENDS_ACROSS, _WIDTH, _TREND_HEIGHT)
        for axis, trends in zip(axes, groups, strict=True):
            _draw_trends_of_column(axis, trends)
    return figure


def _draw_trends_of_column(axis: Axes, trends: Sequence[Trend]) -> None:
    """Draw the trends of one column with their bands."""
    waves = np.arange(len(trends[0].times))
    for trend, color in zip(trends, _COLORS, strict=False):
        axis.fill_between(waves, trend.low, trend.high, color=color, alpha=0.22, linewidth=0)
        axis.plot(waves, trend.estimate, color=color, linewidth=1.8, label=trend.name)
    ticks = np.unique(np.linspace(0, len(waves) - 1, _MAX_TREND_TICKS).round().astype(int))
    axis.set_xticks(ticks, [trends[0].times[tick] for tick in ticks], fontsize=7)
    axis.legend(fontsize=7, loc="best")


def _trends_of(model: WaveModel, name: str) -> list[Trend]:
    """Return the trend of a column's mean, or of the shares of its first five categories, if any."""
    try:
        return [model.trend(name)]
    except PrivotError:  # the column has no numbers
        labels = model.schema.coded[name].labels if name in model.schema.coded else ()
        return [model.trend(name, label) for label in labels[:_MAX_CATEGORIES]]


def write_wave_report(path: str | Path, model: WaveModel) -> None:
    """Write the page of a model over time: its trends, and its sudden changes.

    The page is computed from the model's releases, and is as private as they are.
    """
    changes = []
    for name in model.schema.table_columns:
        try:
            changes.append(model.change_point(name))
        except PrivotError:  # there are only two waves, or the column has no numbers
            continue
    fields = {
        "figure": panels.data_uri(draw_trends(model), dpi=130),
        "waves": len(model.times),
        "first": model.times[0],
        "last": model.times[-1],
        "people": sum(model.people),
        "changes": changes,
        "promise": model.wave_guarantee.describe(),
        "wave": str(model.wave_guarantee),
        "all": str(model.guarantee),
        "unit": model.schema.unit,
    }
    panels.write_page(path, "waves.html", fields)

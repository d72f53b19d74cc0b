"""Pages of one HTML file: a model's samples against real records; what images it draws; a demo's."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from privot.evaluation import Evaluation, Score, TableComparison
from privot.files import replacing_folder
from privot.local import LocalModel
from privot.release import Release
from privot.report.figures import draw_density, draw_loss
from privot.report.maps import Map, draw_maps
from privot.report.panels import (
    ImagePanel,
    data_uri,
    draw_image_panels,
    reported_images,
    save_png,
    unit_images,
    write_page,
)
from privot.report.tables import (
    MOST_COLUMNS,
    MOST_PAIRED,
    column_bars,
    draw_pair_errors,
)
from privot.schema import Schema

_MEASURES = {
    "one_way": ("Each column", "total variation"),
    "two_way": ("Each pair of columns", "total variation"),
    "cramers_v": ("Association of a pair", "difference of Cramér's V"),
    "correlation": ("Correlation of two numbers", "difference, of the bins' centers"),
}
_MOST_COORDINATES = 16
_WORST_PAIRS = 10
_SAMPLES = 64


@dataclass(frozen=True)
class Gauge:
    """A score as marks on a line from 0, where values agree, to `end`."""

    title: str
    measure: str
    score: Score
    end: float

    def place(self, value: float) -> float:
        """Where on the line a value stands, from 0 to 1."""
        return min(value / self.end, 1.0) if self.end > 0 else 0.0


def structure_found(score: Score) -> float | None:
    """How far a score is on the way from independence to the floor; None where that is hardly a way.

    Examples:
        >>> structure_found(Score(synthetic=0.05, floor=0.03, independence=0.13))
        0.8
    """
    if score.independence is None or score.independence <= 1.1 * score.floor:
        return None
    share = (score.independence - score.synthetic) / (score.independence - score.floor)
    return round(float(np.clip(share, 0, 1)), 12)


def write_report(evaluation: Evaluation, path: str | Path, *, num_held: int | None = None) -> None:
    """Write what was found as a page of HTML, with figures: **not private**, and the page says so.

    Arguments:
        evaluation: By [`evaluate`][privot.evaluation.evaluate].
        path: Where to; an old page survives any failure.
        num_held: How many real records were drawn from, if not all were compared.

    Examples:
        `privot.write_report(privot.evaluate(model, holdout), "report.html")`
    """
    schema, model, table = evaluation.schema, evaluation.model, evaluation.comparison.table
    synthetic, real = evaluation.synthetic, evaluation.real
    history = None if model is None else model.history
    maps, densities = _draw_vectors(schema, synthetic, real)
    fields = {} if table is None else _table_fields(table)
    write_page(
        path,
        "evaluation.html",
        {
            "origin": model.made_with["num_reports"] if isinstance(model, LocalModel) else None,
            "num_real": real.num_rows,
            "num_held": num_held or real.num_rows,
            "num_synthetic": synthetic.num_rows,
            "unit": schema.unit,
            "guarantee": None if model is None else model.guarantee,
            "table": table,
            "bars": [] if table is None else column_bars(schema, synthetic, real, table),
            "most_columns": MOST_COLUMNS,
            "most_paired": MOST_PAIRED,
            "prediction": evaluation.prediction,
            "vectors": evaluation.comparison.vectors,
            "maps": maps,
            "densities": densities,
            "images": evaluation.comparison.images,
            "image_panels": [_draw_images(evaluation, name) for name in schema.images],
            "label": evaluation.label,
            "loss": None if history is None else data_uri(draw_loss(history)),
            **{"gauges": [], "found": None, "pairs": None, "worst": []},
            **fields,
        },
    )


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


def _draw_images(evaluation: Evaluation, name: str) -> str:
    """Real images, what a device would send of synthetic ones if any does, synthetic ones."""
    column, model = evaluation.schema.images[name], evaluation.model
    synthetic = unit_images(column, name, evaluation.synthetic)
    panels = [
        ImagePanel("Real", f"{name}, of real records", unit_images(column, name, evaluation.real)),
        ImagePanel("Synthetic", "samples of the model", synthetic),
    ]
    if isinstance(model, LocalModel):
        # Reports of the model's own images: nobody's budget is spent for a picture.
        sent = model.randomizer.privatize(evaluation.synthetic.slice(0, 512))
        words = "what a device sends, here of synthetic images"
        panels.insert(1, ImagePanel("Noised", words, *reported_images(sent, name)))
    return data_uri(draw_image_panels(panels), dpi=130)


def _table_fields(table: TableComparison) -> dict[str, object]:
    summary = table.summary
    ends = {name: 1.04 * _largest(score) for name, score in summary.items()}
    # Columns stand on the scale of pairs: both are total variations.
    ends["one_way"] = max(ends["one_way"], ends.get("two_way", 0.0))
    worst = sorted(table.pairs, key=lambda pair: -pair.total_variation.synthetic)
    return {
        "gauges": [Gauge(*_MEASURES[n], score, ends[n]) for n, score in summary.items()],
        "found": structure_found(summary["two_way"]) if table.pairs else None,
        "pairs": data_uri(draw_pair_errors(table), dpi=190) if table.pairs else None,
        "worst": worst[:_WORST_PAIRS] if len(worst) > _WORST_PAIRS else [],
    }


def _largest(score: Score) -> float:
    return max(score.synthetic, score.floor, score.independence or 0.0)


def _draw_vectors(
    schema: Schema, synthetic: pa.Table, real: pa.Table
) -> tuple[list[str], list[str]]:
    """Maps of vectors in the plane, and the density of every coordinate."""
    maps, densities = [], []
    for name, column in schema.vectors.items():
        parts = column.table_columns(name)
        points = [column.encode_points(name, table) for table in (real, synthetic)]
        points = [each[~np.isnan(each).any(axis=1)] for each in points]
        for j, part in enumerate(parts[:_MOST_COORDINATES]):
            densities.append(data_uri(draw_density(part, points[0][:, j], points[1][:, j])))
        if len(parts) == 2:
            both = np.concatenate(points)
            low, high = both.min(axis=0), both.max(axis=0)
            pair = [
                Map("Real", name, points[0]),
                Map("Synthetic", "samples of the model", points[1]),
            ]
            bounds = ((low[0], high[0]), (low[1], high[1]))
            geographic = "latitude" in parts[1].lower()
            maps.append(data_uri(draw_maps(pair, bounds, geographic=geographic)))
    return maps, densities


if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def write_results(
    folder: Path,
    template: str,
    picture: tuple[str, Figure],
    model: LocalModel,
    metrics: DataclassInstance,
    fields: dict[str, Any],
) -> None:
    """Write `report.html` from the template and its fields, the picture, `metrics.json`, `model/`."""
    name, figure = picture
    shared = {
        "m": metrics,
        "picture": data_uri(figure, dpi=150),
        "loss": None if model.history is None else data_uri(draw_loss(model.history)),
        "promise": model.guarantee.describe(),
        "guarantee": str(model.guarantee),
    }
    with replacing_folder(folder) as draft:
        write_page(draft / "report.html", template, shared | fields)
        save_png(figure, draft / name, dpi=110)
        numbers = json.dumps(asdict(metrics), indent=2)
        (draft / "metrics.json").write_text(numbers + "\n", encoding="utf-8")
        model.save(draft / "model")

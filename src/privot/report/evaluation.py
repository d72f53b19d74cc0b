"""The evaluation report: a model's samples against real records. Not private, and says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from privot.evaluation import Comparison, Prediction, Score, TableComparison
from privot.evaluation.prediction import LabelScore
from privot.local import LocalModel
from privot.report.fits import draw_loss
from privot.report.panels import (
    ImagePanel,
    Panel,
    draw_image_panels,
    draw_maps,
    reported_images,
    unit_images,
)
from privot.report.style import data_uri, write_page
from privot.report.tables import (
    MOST_COLUMNS,
    MOST_PAIRED,
    column_bars,
    draw_density,
    draw_pair_errors,
)

_MEASURES = {
    "one_way": ("Each column", "total variation"),
    "two_way": ("Each pair of columns", "total variation"),
    "cramers_v": ("Association of a pair", "difference of Cramér's V"),
    "correlation": ("Correlation of two numbers", "difference, of the bins' centers"),
}
_MOST_COORDINATES = 16
_WORST_PAIRS = 10


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


def write_evaluation_report(
    path: Path,
    model: LocalModel,
    synthetic: pa.Table,
    real: pa.Table,
    comparison: Comparison,
    prediction: Prediction | None = None,
    label: LabelScore | None = None,
    num_held: int | None = None,
) -> None:
    """Write the page.

    Arguments:
        path: Where to.
        model: Whose promise and training are told.
        synthetic: Its samples.
        real: What they were compared with.
        comparison: By [`compare`][privot.evaluation.compare].
        prediction: By `predict_target` of `privot.evaluation.prediction`, if a target was named.
        label: The same for images, by `predict_label` of the same module.
        num_held: How many real records `real` was drawn from, if from more.
    """
    table = comparison.table
    maps, densities = _draw_vectors(model, synthetic, real)
    fields = {} if table is None else _table_fields(table)
    write_page(
        path,
        "evaluation.html",
        {
            "num_reports": model.made_with["num_reports"],
            "num_real": real.num_rows,
            "num_held": num_held or real.num_rows,
            "num_synthetic": synthetic.num_rows,
            "unit": model.schema.unit,
            "promise": model.guarantee.describe(),
            "guarantee": str(model.guarantee),
            "table": table,
            "bars": [] if table is None else column_bars(model.schema, synthetic, real, table),
            "most_columns": MOST_COLUMNS,
            "most_paired": MOST_PAIRED,
            "prediction": prediction,
            "vectors": comparison.vectors,
            "maps": maps,
            "densities": densities,
            "images": comparison.images,
            "image_panels": _draw_images(model, synthetic, real),
            "label": label,
            "loss": None if model.history is None else data_uri(draw_loss(model.history)),
            **{"gauges": [], "found": None, "pairs": None, "worst": []},
            **fields,
        },
    )


def _draw_images(model: LocalModel, synthetic: pa.Table, real: pa.Table) -> list[str]:
    """Real, what a device would send of a synthetic one, synthetic: a figure a column."""
    drawn = []
    for name, column in model.schema.images.items():
        # Reports of the model's own images: nobody's budget is spent for a picture.
        reported, limit = reported_images(model.randomizer.privatize(synthetic.slice(0, 512)), name)
        panels = [
            ImagePanel("Real", f"{name}, of real records", unit_images(column, name, real)),
            ImagePanel("Noised", "what a device sends, here of synthetic images", reported, limit),
            ImagePanel("Synthetic", "samples of the model", unit_images(column, name, synthetic)),
        ]
        drawn.append(data_uri(draw_image_panels(panels), dpi=130))
    return drawn


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
    model: LocalModel, synthetic: pa.Table, real: pa.Table
) -> tuple[list[str], list[str]]:
    """Maps of vectors in the plane, and the density of every coordinate."""
    maps, densities = [], []
    schema = model.schema
    for name, column in schema.points.items():
        if name in schema.coded or name in schema.images:
            continue
        parts = column.table_columns(name)
        points = [column.encode_points(name, table) for table in (real, synthetic)]
        points = [each[~np.isnan(each).any(axis=1)] for each in points]
        for j, part in enumerate(parts[:_MOST_COORDINATES]):
            densities.append(data_uri(draw_density(part, points[0][:, j], points[1][:, j])))
        if len(parts) == 2:
            both = np.concatenate(points)
            low, high = both.min(axis=0), both.max(axis=0)
            panels = [
                Panel("Real", name, points[0]),
                Panel("Synthetic", "samples of the model", points[1]),
            ]
            bounds = ((low[0], high[0]), (low[1], high[1]))
            geographic = "latitude" in parts[1].lower()
            maps.append(data_uri(draw_maps(panels, bounds, geographic=geographic)))
    return maps, densities

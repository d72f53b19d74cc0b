"""Pages of a model's verdict: against real records, and by reports alone. One HTML file each.

Both have the verdict in words on top, a card for every column, the map of all pairs and some rows. The
rows are synthetic: a real record is never shown, and a synthetic one is nobody's. The page against real
records is **not private**, and says so; the one by reports alone is computed from the release, and as
private as it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privot.evaluation import Check, Comparison, Evaluation, Score, TableComparison
from privot.local import LocalModel
from privot.report.cards import MOST_COLUMNS, cards
from privot.report.figures import draw_loss
from privot.report.heat import MOST_PAIRED, HeatMap, heat_map
from privot.report.maps import Map, draw_maps
from privot.report.panels import (
    ImagePanel,
    data_uri,
    draw_image_panels,
    reported_images,
    unit_images,
    write_page,
)
from privot.schema import Schema

_MEASURES = {
    "one_way": ("Each column", "total variation"),
    "two_way": ("Each pair of columns", "total variation"),
    "cramers_v": ("Association of a pair", "difference of Cramér's V"),
    "ks": ("Each number", "Kolmogorov–Smirnov distance of values"),
    "correlation": ("Correlation of two numbers", "difference, of values"),
}
_WORST_PAIRS, _ROWS, _SHOWN_COLUMNS, _LONGEST_VALUE = 10, 6, 12, 40
_DRAWN = 20_000


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


@dataclass(frozen=True)
class Worst:
    """A pair that is most wrong, and what there is to compare it with."""

    name: str
    numbers: tuple[str, ...]


def write_report(evaluation: Evaluation, path: str | Path, *, num_held: int | None = None) -> None:
    """Write what was found as a page of HTML, with figures: **not private**, and the page says so.

    Arguments:
        evaluation: By [`evaluate`][privot.evaluation.evaluate].
        path: Where to; an old page survives any failure.
        num_held: How many real records were drawn from, if not all were compared.

    Examples:
        `privot.write_report(privot.evaluate(model, holdout), "report.html")`
    """
    schema, model, found = evaluation.schema, evaluation.model, evaluation.comparison
    synthetic, real = evaluation.synthetic, evaluation.real
    history = None if model is None else model.history
    check = Check.of(model) if isinstance(model, LocalModel) else None
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
            "verdict": evaluation.verdict,
            "by_reports": () if check is None else check.verdict,
            "table": found.table,
            "cards": cards(schema, synthetic, real, found, check),
            "num_cards": _num_cards(schema),
            "most_columns": MOST_COLUMNS,
            "most_paired": MOST_PAIRED,
            "prediction": evaluation.prediction,
            "vectors": found.vectors,
            "maps": _draw_maps(schema, synthetic, real),
            "images": found.images,
            "image_panels": [_draw_images(evaluation, name) for name in schema.images],
            "label": evaluation.label,
            "loss": None if history is None else data_uri(draw_loss(history)),
            "gauges": _gauges(found),
            "sample": _sample(schema, synthetic),
            **_pairs_against(found.table),
        },
    )


def write_check_report(check: Check, model: LocalModel, path: str | Path) -> None:
    """Write what reports alone say of a model: as private as they are.

    Arguments:
        check: By [`check`][privot.evaluation.checking.check].
        model: Which was checked; some of its records are drawn.
        path: Where to; an old page survives any failure.
    """
    drawn = model.sample(_DRAWN, seed=0)
    own = {column.column: column.error for column in check.columns}
    errors = {(pair.first, pair.second): pair.error for pair in check.pairs}
    there = {(pair.first, pair.second): pair.dependence for pair in check.pairs}
    rows = [
        Worst(
            pair.name + (" †" if pair.contradicted else ""),
            (f"{pair.error:.3f}", f"{pair.dependence:.3f}", f"{pair.people:,}"),
        )
        for pair in sorted(check.pairs, key=lambda pair: -pair.error)[:_WORST_PAIRS]
    ]
    words = ("error to expect", "error to expect", "dependence, by the model")
    write_page(
        path,
        "check.html",
        {
            "num_reports": check.num_reports,
            "held_out": check.held_out,
            "unit": model.schema.unit,
            "guarantee": model.guarantee,
            "verdict": check.verdict,
            "cards": cards(model.schema, drawn, None, None, check),
            "num_cards": _num_cards(model.schema),
            "most_columns": MOST_COLUMNS,
            "most_paired": MOST_PAIRED,
            "heat": heat_map([*own], own, errors, there, words) if errors else None,
            "worst": rows,
            "maps": _draw_maps(model.schema, drawn),
            "sample": _sample(model.schema, drawn),
        },
    )


def _num_cards(schema: Schema) -> int:
    return len([n for n in schema.table_columns if n not in schema.images])


def _gauges(found: Comparison) -> list[Gauge]:
    summary = found.summary
    ends = {name: 1.04 * _largest(score) for name, score in summary.items()}
    if "one_way" in ends:
        # Columns stand on the scale of pairs: both are total variations.
        ends["one_way"] = max(ends["one_way"], ends.get("two_way", 0.0))
    return [Gauge(*_MEASURES[n], score, ends[n]) for n, score in summary.items()]


def _pairs_against(table: TableComparison | None) -> dict[str, Any]:
    if table is None or not table.pairs:
        return {"heat": None, "worst": []}
    own = {row.column: row.total_variation.synthetic for row in table.columns}
    pairs = {(pair.first, pair.second): pair.total_variation for pair in table.pairs}
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    below = {pair: score.synthetic for pair, score in pairs.items()}
    above = {pair: score.independence or 0.0 for pair, score in pairs.items()}
    heat: HeatMap = heat_map(names, own, below, above, ("error", "error", "independent columns"))
    order = sorted(pairs, key=lambda pair: -pairs[pair].synthetic)[:_WORST_PAIRS]
    rows = [Worst(f"{pair[0]} × {pair[1]}", _numbers(pairs[pair])) for pair in order]
    return {"heat": heat, "worst": rows}


def _numbers(score: Score) -> tuple[str, ...]:
    return (f"{score.synthetic:.3f}", f"{score.floor:.3f}", f"{score.independence or 0.0:.3f}")


def _largest(score: Score) -> float:
    return max(score.synthetic, score.floor, score.independence or 0.0)


def _sample(schema: Schema, synthetic: pa.Table) -> dict[str, Any]:
    """A few synthetic rows, in words: names, rows, and how many columns are left out."""
    names = [n for n in synthetic.column_names if n not in schema.images]
    kept = names[:_SHOWN_COLUMNS]
    rows = [[_tell(row[name]) for name in kept] for row in synthetic.slice(0, _ROWS).to_pylist()]
    return {"names": kept, "rows": rows if kept else [], "more": len(names) - len(kept)}


def _tell(value: object) -> str:
    if value is None:
        return "–"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


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


def _draw_maps(schema: Schema, synthetic: pa.Table, real: pa.Table | None = None) -> list[str]:
    """Maps of vectors in the plane: of real records, if there are some, and of synthetic ones."""
    maps = []
    for name, column in schema.vectors.items():
        parts = column.table_columns(name)
        if len(parts) != 2:
            continue
        tables = [synthetic] if real is None else [real, synthetic]
        points = [column.encode_points(name, table) for table in tables]
        points = [each[~np.isnan(each).any(axis=1)] for each in points]
        both = np.concatenate(points)
        low, high = both.min(axis=0), both.max(axis=0)
        titles = [("Real", name), ("Synthetic", "samples of the model")][-len(points) :]
        panels: Sequence[Map] = [
            Map(*title, each) for title, each in zip(titles, points, strict=True)
        ]
        geographic = "latitude" in parts[1].lower()
        figure = draw_maps(panels, ((low[0], high[0]), (low[1], high[1])), geographic=geographic)
        maps.append(data_uri(figure))
    return maps

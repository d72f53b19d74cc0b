"""Reports on synthetic tables: against real records, and by reports alone. One HTML file each.

Both have findings in words on top, a card for every column (bars of categories, a histogram of numbers,
and a few facts), the map of all pairs and some rows. Real records appear as shares and quantiles, never
one by one; rows are synthetic, and nobody's. The page against real records is **not private**, and says
so; the one by reports alone is computed from the release, and as private as it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from privot.evaluation.checking import Check, ColumnCheck
from privot.evaluation.distances import NumberScore, Score, TableComparison, number_series
from privot.evaluation.estimates import NumberCheck
from privot.evaluation.result import Comparison, Evaluation
from privot.evaluation.verdicts import COLUMN, NUMBER, Grade, grade, percent
from privot.local import LocalModel
from privot.report.charts import (
    MAX_PAIRED,
    Bar,
    bars_of,
    draw_heat_map,
    draw_histogram,
    format_number,
    worst,
)
from privot.report.pages import draw_loss
from privot.report.panels import (
    ImagePanel,
    Map,
    data_uri,
    draw_image_panels,
    draw_maps,
    inline_svg,
    reported_images,
    unit_images,
    write_page,
)
from privot.schema import Schema
from privot.schema.domains import Array

MAX_COLUMNS = 60
_MAX_LABEL = 24
_MAX_PAIRS, _ROWS, _MAX_SHOWN, _MAX_LETTERS = 10, 6, 12, 40
_NUM_DRAWN = 20_000
_MEASURES = {
    "one_way": ("Each column", "total variation"),
    "two_way": ("Each pair of columns", "total variation"),
    "cramers_v": ("Association of a pair", "difference of Cramér's V"),
    "ks": ("Each number", "Kolmogorov–Smirnov distance of values"),
    "correlation": ("Correlation of two numbers", "difference, of values"),
}


@dataclass(frozen=True)
class Fact:
    """A row below a histogram: the model's number, the real one, and the reports' interval."""

    name: str
    synthetic: str
    real: str = ""
    reports: tuple[str, str] | None = None


@dataclass(frozen=True)
class Card:
    """A card of one column, or one coordinate.

    Arguments:
        name: Name of the table's column.
        error: Error that it is graded by.
        score: The same in words.
        grade: Grade of the error.
        bars: Bars of categories.
        histogram: Histogram of numbers, as SVG.
        facts: Rows below a histogram.
        note: A sentence below all, or nothing.
    """

    name: str
    error: float
    score: str
    grade: Grade
    bars: tuple[Bar, ...] = ()
    histogram: Markup | None = None
    facts: tuple[Fact, ...] = ()
    note: str = ""

    @property
    def scale(self) -> float:
        """The share of a full bar."""
        return max([bar.longest for bar in self.bars] or [1.0]) or 1.0

    @property
    def label_width(self) -> int:
        """Length of the longest label that is shown in full."""
        return min(max([len(bar.label) for bar in self.bars] or [1]), _MAX_LABEL)


def cards(
    schema: Schema,
    synthetic: pa.Table,
    real: pa.Table | None,
    comparison: Comparison | None,
    check: Check | None,
) -> list[Card]:
    """Return cards of all columns in the schema's order; of more than 60, those most wrong."""
    ours = number_series(schema, synthetic)
    truth = {} if real is None else number_series(schema, real)
    scores = {} if comparison is None else {n.name: n for n in comparison.numbers}
    checks = {} if check is None else {column.column: column for column in check.columns}
    errors = {}
    if comparison is not None and comparison.table is not None:
        errors = {c.column: c.total_variation for c in comparison.table.columns}
    found = []
    for name, column in schema.columns.items():
        for part in column.table_columns(name) if name in schema.points else ():
            if name not in schema.images and (scores or check is not None):
                score = scores.get(part)
                if score is not None or comparison is None:
                    values = ours[part], truth.get(part)
                    found.append(_of_number(schema, part, values, score, checks.get(name)))
        if name in schema.coded and name not in schema.points:
            own = checks.get(name)
            bars = bars_of(schema, name, synthetic, real, () if own is None else own.shares)
            if name in errors:
                score_of = errors[name]
                words = f"{percent(score_of.synthetic)} off, floor {percent(score_of.floor)}"
                graded = grade(score_of.synthetic, COLUMN, score_of.floor)
                found.append(Card(name, score_of.synthetic, words, graded, bars))
            elif own is not None:
                found.append(Card(name, own.error, *_expected(own), bars, note=_note(own)))
    return [found[i] for i in worst([card.error for card in found], MAX_COLUMNS)]


def _expected(own: ColumnCheck) -> tuple[str, Grade]:
    return f"{percent(own.error)} error to expect", grade(own.error, COLUMN)


def _note(own: ColumnCheck) -> str:
    return "The reports contradict the model here." if own.contradicted else ""


def _of_number(
    schema: Schema,
    part: str,
    values: tuple[Array, Array | None],
    score: NumberScore | None,
    own: ColumnCheck | None,
) -> Card:
    there = [None if each is None else each[~np.isnan(each)] for each in values]
    synthetic, real = there
    assert synthetic is not None
    number = None if own is None else own.number
    drawn = draw_histogram(schema, part, synthetic, real, number)
    histogram = None if drawn is None else inline_svg(drawn, f"Histogram of {part}")
    facts = _facts(schema, part, values, score, number)
    note = "" if own is None else _note(own)
    if score is not None:
        words = f"KS {score.ks.synthetic:.3f}, floor {score.ks.floor:.3f}"
        graded = grade(score.ks.synthetic, NUMBER, score.ks.floor)
        return Card(part, score.ks.synthetic, words, graded, (), histogram, facts, note)
    if own is None:
        return Card(part, 0.0, "", "unknown", (), histogram, facts, note)
    return Card(part, own.error, *_expected(own), (), histogram, facts, note)


def _facts(
    schema: Schema,
    part: str,
    values: tuple[Array, Array | None],
    score: NumberScore | None,
    number: NumberCheck | None,
) -> tuple[Fact, ...]:
    def written(x: float) -> str:
        return format_number(schema, part, x)

    absent = [None if each is None else float(np.isnan(each).mean()) for each in values]
    facts = []
    if number is not None or score is not None:
        pairs = [("mean", score.mean if score else None, number.mean if number else None)]
        quantiles = ((2, 1, "25 %"), (3, 2, "median"), (4, 3, "75 %"))
        for place, level, name in quantiles:
            real = score.quantiles[place] if score else None
            pairs.append((name, real, number.quantiles[level] if number else None))
        for name, both, own in pairs:
            ours = both.synthetic if both else own.model if own else 0.0
            ends = (written(own.reports.low), written(own.reports.high)) if own else None
            facts.append(Fact(name, written(ours), written(both.real) if both else "", ends))
    if score is not None:
        if schema.columns.get(part) is None or schema.columns[part].holds_numbers:
            std = score.std
            facts.append(Fact("std", written(std.synthetic), written(std.real)))
        low, high = score.tails
        facts.append(Fact("below 1 %", percent(low.synthetic), percent(low.real)))
        facts.append(Fact("above 99 %", percent(high.synthetic), percent(high.real)))
    if any(absent):
        shares = [percent(each) if each is not None else "" for each in absent]
        facts.append(Fact("missing", shares[0], shares[1]))
    return tuple(facts)


@dataclass(frozen=True)
class Gauge:
    """Marks of a score on a line from 0, where values agree, to `end`."""

    title: str
    measure: str
    score: Score
    end: float

    def place(self, value: float) -> float:
        """Return the place of a value on the line, from 0 to 1."""
        return min(value / self.end, 1.0) if self.end > 0 else 0.0


@dataclass(frozen=True)
class Worst:
    """A pair with a large error, and the numbers to compare it with."""

    name: str
    numbers: tuple[str, ...]


def write_report(evaluation: Evaluation, path: str | Path, *, num_held: int | None = None) -> None:
    """Write an evaluation as a page of HTML, with figures: **not private**, and the page says so.

    Arguments:
        evaluation: By [`evaluate`][privot.evaluation.evaluate].
        path: Path of the page; an old one survives any failure.
        num_held: Number of real records to draw from, if not all were compared.

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
            "max_columns": MAX_COLUMNS,
            "max_paired": MAX_PAIRED,
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
    """Write a check by reports alone as a page of HTML: as private as they are.

    Arguments:
        check: By [`check`][privot.evaluation.checking.check].
        model: The model that was checked; some of its records are drawn.
        path: Path of the page; an old one survives any failure.
    """
    drawn = model.sample(_NUM_DRAWN, seed=0)
    own = {column.column: column.error for column in check.columns}
    errors = {(pair.first, pair.second): pair.error for pair in check.pairs}
    there = {(pair.first, pair.second): pair.dependence for pair in check.pairs}
    rows = [
        Worst(
            pair.name + (" †" if pair.contradicted else ""),
            (f"{pair.error:.3f}", f"{pair.dependence:.3f}", f"{pair.people:,}"),
        )
        for pair in sorted(check.pairs, key=lambda pair: -pair.error)[:_MAX_PAIRS]
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
            "max_columns": MAX_COLUMNS,
            "max_paired": MAX_PAIRED,
            "heat": _heat([*own], own, errors, there, words) if errors else None,
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
    heat = _heat(names, own, below, above, ("error", "error", "independent columns"))
    order = sorted(pairs, key=lambda pair: -pairs[pair].synthetic)[:_MAX_PAIRS]
    rows = [Worst(f"{pair[0]} × {pair[1]}", _numbers(pairs[pair])) for pair in order]
    return {"heat": heat, "worst": rows}


def _heat(
    names: Sequence[str],
    own: Mapping[str, float],
    below: Mapping[tuple[str, str], float],
    above: Mapping[tuple[str, str], float],
    words: tuple[str, str, str],
) -> Markup:
    figure = draw_heat_map(names, own, below, above, words)
    said = f"Every pair of columns: below the diagonal {words[1]}, above it {words[2]}"
    return inline_svg(figure, said, min(1.25 * 72 * figure.get_figwidth(), 820))


def _numbers(score: Score) -> tuple[str, ...]:
    return (f"{score.synthetic:.3f}", f"{score.floor:.3f}", f"{score.independence or 0.0:.3f}")


def _largest(score: Score) -> float:
    return max(score.synthetic, score.floor, score.independence or 0.0)


def _sample(schema: Schema, synthetic: pa.Table) -> dict[str, Any]:
    """Return names and a few synthetic rows in words, and the number of columns left out."""
    names = [n for n in synthetic.column_names if n not in schema.images]
    shown = names[:_MAX_SHOWN]
    rows = [
        [_written(row[name]) for name in shown] for row in synthetic.slice(0, _ROWS).to_pylist()
    ]
    return {"names": shown, "rows": rows if shown else [], "more": len(names) - len(shown)}


def _written(value: object) -> str:
    if value is None:
        return "–"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MAX_LETTERS else text[: _MAX_LETTERS - 1] + "…"


def _draw_images(evaluation: Evaluation, name: str) -> str:
    """Draw real images, reports of synthetic ones if devices report, and synthetic ones."""
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
    """Draw maps of vectors in the plane: of real records, if there are some, and of synthetic ones."""
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

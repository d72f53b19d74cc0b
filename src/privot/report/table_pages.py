"""Reports on synthetic tables: against real records, and by reports alone. One HTML file each.

Both have findings in words on top, a card for every column (bars of categories, a histogram of numbers,
and a few facts), the map of all pairs and some rows. Real records appear as shares and quantiles, never
one by one; rows are synthetic, and nobody's. The page against real records is **not private**, and says
so; the one by reports alone is computed from the release, and as private as it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
    """A card of one column, or one coordinate."""

    name: str  # of the table's column
    error: float  # that it is graded by
    score: str  # the same in words
    grade: Grade
    bars: tuple[Bar, ...] = ()  # of categories
    histogram: Markup | None = None  # of numbers, as SVG
    facts: tuple[Fact, ...] = ()  # rows below a histogram
    note: str = ""  # a sentence below all, or nothing

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
    table = None if comparison is None else comparison.table
    errors = {} if table is None else {c.column: c.total_variation for c in table.columns}
    found = []
    for name, column in schema.columns.items():
        own = checks.get(name)
        if name in schema.points:
            parts = () if name in schema.images else column.table_columns(name)
            for part in parts if scores or check is not None else ():
                if part in scores or comparison is None:
                    values = ours[part], truth.get(part)
                    found.append(_number_card(schema, part, values, scores.get(part), own))
        elif name in schema.coded:
            bars = bars_of(schema, name, synthetic, real, () if own is None else own.shares)
            if name in errors:
                score = errors[name]
                words = f"{percent(score.synthetic)} off, floor {percent(score.floor)}"
                graded = grade(score.synthetic, COLUMN, score.floor)
                found.append(Card(name, score.synthetic, words, graded, bars))
            elif own is not None:
                found.append(Card(name, own.error, *_expected(own), bars, note=_note(own)))
    return [found[i] for i in worst([card.error for card in found], MAX_COLUMNS)]


def _expected(own: ColumnCheck) -> tuple[str, Grade]:
    return f"{percent(own.error)} error to expect", grade(own.error, COLUMN)


def _note(own: ColumnCheck | None) -> str:
    return "The reports contradict the model here." if own and own.contradicted else ""


def _number_card(
    schema: Schema,
    part: str,
    values: tuple[Array, Array | None],
    score: NumberScore | None,
    own: ColumnCheck | None,
) -> Card:
    """Return the card of numbers, synthetic and real; graded by real ones, or else by reports."""
    synthetic, real = (None if each is None else each[~np.isnan(each)] for each in values)
    assert synthetic is not None
    number = None if own is None else own.number
    drawn = draw_histogram(schema, part, synthetic, real, number)
    error, words = 0.0, ""
    graded: Grade = "unknown"
    if score is not None:
        error = score.ks.synthetic
        words = f"KS {error:.3f}, floor {score.ks.floor:.3f}"
        graded = grade(error, NUMBER, score.ks.floor)
    elif own is not None:
        error, (words, graded) = own.error, _expected(own)
    histogram = None if drawn is None else inline_svg(drawn, f"Histogram of {part}")
    facts = tuple(_facts(schema, part, values, score, number))
    return Card(part, error, words, graded, (), histogram, facts, _note(own))


def _facts(
    schema: Schema,
    part: str,
    values: tuple[Array, Array | None],
    score: NumberScore | None,
    number: NumberCheck | None,
) -> Iterator[Fact]:
    """Yield the rows below a histogram."""
    written = partial(format_number, schema, part)
    facts = [("mean", score and score.mean, number and number.mean)]
    for place, level, name in ((2, 1, "25 %"), (3, 2, "median"), (4, 3, "75 %")):
        real, own = score and score.quantiles[place], number and number.quantiles[level]
        facts.append((name, real, own))
    for name, both, own in facts:
        ends = (written(own.reports.low), written(own.reports.high)) if own else None
        if both:
            yield Fact(name, written(both.synthetic), written(both.real), ends)
        elif own:
            yield Fact(name, written(own.model), "", ends)
    if score is not None:
        if schema.columns.get(part) is None or schema.columns[part].holds_numbers:
            yield Fact("std", written(score.std.synthetic), written(score.std.real))
        for name, tail in zip(("below 1 %", "above 99 %"), score.tails, strict=True):
            yield Fact(name, percent(tail.synthetic), percent(tail.real))
    absent = [0.0 if each is None else float(np.isnan(each).mean()) for each in values]
    if any(absent):
        yield Fact("missing", percent(absent[0]), "" if values[1] is None else percent(absent[1]))


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
class PairRow:
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
    fields = {
        "origin": model.made_with["num_reports"] if isinstance(model, LocalModel) else None,
        "num_real": real.num_rows,
        "num_held": num_held or real.num_rows,
        "num_synthetic": synthetic.num_rows,
        "guarantee": None if model is None else model.guarantee,
        "verdict": evaluation.verdict,
        "by_reports": () if check is None else check.verdict,
        "table": found.table,
        "cards": cards(schema, synthetic, real, found, check),
        "prediction": evaluation.prediction,
        "vectors": found.vectors,
        "maps": _draw_maps(schema, synthetic, real),
        "images": found.images,
        "image_panels": [_draw_images(evaluation, name) for name in schema.images],
        "label": evaluation.label,
        "loss": None if history is None else data_uri(draw_loss(history)),
        "gauges": _gauges(found),
    }
    pairs = _pairs_against(found.table)
    write_page(path, "evaluation.html", fields | pairs | _shared(schema, synthetic))


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
        PairRow(
            pair.name + (" †" if pair.contradicted else ""),
            (f"{pair.error:.3f}", f"{pair.dependence:.3f}", f"{pair.people:,}"),
        )
        for pair in sorted(check.pairs, key=lambda pair: -pair.error)[:_MAX_PAIRS]
    ]
    words = ("error to expect", "error to expect", "dependence, by the model")
    fields = {
        "num_reports": check.num_reports,
        "held_out": check.held_out,
        "guarantee": model.guarantee,
        "verdict": check.verdict,
        "cards": cards(model.schema, drawn, None, None, check),
        "heat": _heat([*own], own, errors, there, words) if errors else None,
        "worst": rows,
        "maps": _draw_maps(model.schema, drawn),
    }
    write_page(path, "check.html", fields | _shared(model.schema, drawn))


def _shared(schema: Schema, synthetic: pa.Table) -> dict[str, Any]:
    """Return the fields of both pages: limits, and some rows in words."""
    names = [n for n in synthetic.column_names if n not in schema.images]
    shown = names[:_MAX_SHOWN]
    rows = [[_written(row[n]) for n in shown] for row in synthetic.slice(0, _ROWS).to_pylist()]
    return {
        "unit": schema.unit,
        "num_cards": len([n for n in schema.table_columns if n not in schema.images]),
        "max_columns": MAX_COLUMNS,
        "max_paired": MAX_PAIRED,
        "sample": {"names": shown, "rows": rows if shown else [], "more": len(names) - len(shown)},
    }


def _gauges(found: Comparison) -> list[Gauge]:
    summary = found.summary
    ends = {
        name: 1.04 * max(score.synthetic, score.floor, score.independence or 0.0)
        for name, score in summary.items()
    }
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
    numbers = {pair: (below[pair], pairs[pair].floor, above[pair]) for pair in order}
    rows = [
        PairRow(" × ".join(pair), tuple(f"{n:.3f}" for n in own)) for pair, own in numbers.items()
    ]
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

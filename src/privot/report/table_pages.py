"""HTML pages about synthetic tables: an evaluation against real records, and a check by reports alone.

Both pages begin with findings in words. A *card* for each column follows: bars of categories, or a
histogram and a few statistics of numbers. Then come the heat map of all pairs and some synthetic rows.
The evaluation shows shares and quantiles of real records, and is **not private**; the check is computed
from reports and a model of reports, and has the guarantee that it states.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from privot.evaluation.checking import Check, ColumnCheck, PairCheck
from privot.evaluation.distances import NumberScore, Score, TableComparison, number_series
from privot.evaluation.estimates import ValueCheck
from privot.evaluation.number_checks import NumberCheck
from privot.evaluation.result import Comparison, Evaluation
from privot.evaluation.verdicts import COLUMN, NUMBER, Grade, expected, grade, percent
from privot.local import LocalModel
from privot.report import charts, panels
from privot.report.pages import draw_loss
from privot.schema import Schema
from privot.schema.domains import Array

MAX_COLUMNS = 60  # most columns that have cards
_MAX_LABEL = 24  # letters of a bar's label
_MAX_PAIRS = 10  # length of the list of the worst pairs
_ROWS, _MAX_SHOWN, _MAX_LETTERS = 6, 12, 40  # of sampled rows: rows, columns, letters of a cell
_NUM_SAMPLED = 20_000  # records of a model that is checked
_MEASURES = {
    "one_way": ("Each column", "total variation"),
    "two_way": ("Each pair of columns", "total variation"),
    "cramers_v": ("Association of a pair", "difference of Cramér's V"),
    "ks": ("Each number", "Kolmogorov–Smirnov distance of values"),
    "correlation": ("Correlation of two numbers", "difference, of values"),
    "rank_correlation": ("Rank correlation of two numbers", "difference, of ranks"),
}


@dataclass(frozen=True)
class Fact:
    """Statistic below a histogram: the model's value, the real one, and the reports' interval."""

    name: str
    synthetic: str
    real: str = ""
    reports: tuple[str, str] | None = None


@dataclass(frozen=True)
class Card:
    """Card of one column, or of one coordinate of a vector."""

    name: str  # name of the table's column
    error: float  # error by which the column is graded
    score: str  # the error in words
    grade: Grade
    bars: tuple[charts.Bar, ...] = ()  # shares of categories
    histogram: Markup | None = None  # SVG of numbers
    facts: tuple[Fact, ...] = ()  # statistics below a histogram
    note: str = ""  # a sentence at the bottom, or empty

    @property
    def scale(self) -> float:
        """Share that a bar of full length stands for."""
        return max([bar.longest for bar in self.bars] or [1.0]) or 1.0

    @property
    def label_width(self) -> int:
        """Number of letters of the longest label, at most 24."""
        return min(max([len(bar.label) for bar in self.bars] or [1]), _MAX_LABEL)


def cards(
    schema: Schema,
    synthetic: pa.Table,
    real: pa.Table | None,
    comparison: Comparison | None,
    check: Check | None,
) -> list[Card]:
    """Return the cards of all columns, or of the 60 with the largest errors, in the schema's order.

    Columns are graded by the comparison with real records, to which a check adds its intervals; without
    real records, by the check.
    """
    synthetic_series = number_series(schema, synthetic)
    real_series = {} if real is None else number_series(schema, real)
    scores = () if comparison is None else comparison.numbers
    number_scores = {score.name: score for score in scores}
    checks = {} if check is None else {column.column: column for column in check.columns}
    table = None if comparison is None else comparison.table
    code_scores = {} if table is None else {c.column: c.total_variation for c in table.columns}
    all_cards: list[Card] = []
    for name, column in schema.columns.items():
        column_check = checks.get(name)
        if name in schema.images:
            continue
        if name in schema.points:
            for part in column.table_columns(name):
                # In a comparison, a column without a value in one of the tables has no score.
                if comparison is None or part in number_scores:
                    values = _Values(synthetic_series[part], real_series.get(part))
                    score = number_scores.get(part)
                    all_cards.append(_number_card(schema, part, values, score, column_check))
        elif name in schema.coded:
            shares = () if column_check is None else column_check.shares
            bars = charts.bars_of(schema, name, synthetic, real, shares)
            all_cards.append(_bar_card(name, bars, code_scores.get(name), column_check))
    return [all_cards[i] for i in charts.worst([card.error for card in all_cards], MAX_COLUMNS)]


class _Values(NamedTuple):
    """Values (n,) of one column of numbers, NaN where missing."""

    synthetic: Array
    real: Array | None


def _graded_by(check: ColumnCheck) -> tuple[float, str, Grade]:
    """Return the expected error of a check: as a number, in words, and graded."""
    return (
        check.error,
        f"{percent(check.error)} error to expect",
        grade(check.error, expected(COLUMN)),
    )


def _note(check: ColumnCheck | None) -> str:
    return "The reports contradict the model here." if check and check.contradicted else ""


def _bar_card(
    name: str, bars: tuple[charts.Bar, ...], score: Score | None, check: ColumnCheck | None
) -> Card:
    """Return a card of bars, graded by the score against real records, or else by the check."""
    if score is None:
        assert check is not None  # there is a comparison or a check
        return Card(name, *_graded_by(check), bars, note=_note(check))
    words = f"{percent(score.synthetic)} off, floor {percent(score.floor)}"
    return Card(name, score.synthetic, words, grade(score.synthetic, COLUMN, score.floor), bars)


def _number_card(
    schema: Schema, part: str, values: _Values, score: NumberScore | None, check: ColumnCheck | None
) -> Card:
    """Return a card of numbers, graded by the score against real numbers, or else by the check."""
    synthetic = values.synthetic[~np.isnan(values.synthetic)]
    real = None if values.real is None else values.real[~np.isnan(values.real)]
    number = None if check is None else check.number
    figure = charts.draw_histogram(schema, part, synthetic, real, number)
    error, words = 0.0, ""
    graded: Grade = "unknown"
    if score is not None:
        error, floor = score.ks.synthetic, score.ks.floor
        words, graded = f"KS {error:.3f}, floor {floor:.3f}", grade(error, NUMBER, floor)
    elif check is not None:
        error, words, graded = _graded_by(check)
        if number is not None:
            words += f", KS {number.ks:.3f}"
            graded = max(graded, grade(number.ks, expected(NUMBER)), key=get_args(Grade).index)
    histogram = None if figure is None else panels.inline_svg(figure, f"Histogram of {part}")
    facts = tuple(_facts(schema, part, values, score, number))
    return Card(part, error, words, graded, (), histogram, facts, _note(check))


def _facts(
    schema: Schema,
    part: str,
    values: _Values,
    score: NumberScore | None,
    number: NumberCheck | None,
) -> Iterator[Fact]:
    """Yield the statistics below a histogram, from a score against real numbers and from a check."""
    formatted, names = (
        partial(charts.format_number, schema, part),
        ("mean", "25 %", "median", "75 %"),
    )
    # The quartiles are in the middle of the quantiles of scores, and of those of checks.
    pairs = [None] * 4 if score is None else [score.mean, *score.quantiles[2:5]]
    checks = [None] * 4 if number is None else [number.mean, *number.quantiles[1:4]]
    for name, pair, check in zip(names, pairs, checks, strict=True):
        interval = None
        if check is not None:
            interval = formatted(check.reports.low), formatted(check.reports.high)
        if pair is not None:
            yield Fact(name, formatted(pair.synthetic), formatted(pair.real), interval)
        elif check is not None:
            yield Fact(name, formatted(check.model), "", interval)
    if score is not None:
        if schema.columns.get(part) is None or schema.columns[part].holds_numbers:
            yield Fact("std", formatted(score.std.synthetic), formatted(score.std.real))
        for name, tail in zip(("below 1 %", "above 99 %"), score.tails, strict=True):
            yield Fact(name, percent(tail.synthetic), percent(tail.real))
    missing = [0.0 if series is None else float(np.isnan(series).mean()) for series in values]
    if any(missing):
        real = "" if values.real is None else percent(missing[1])
        yield Fact("missing", percent(missing[0]), real)


@dataclass(frozen=True)
class Gauge:
    """Mean score on a scale from 0, where the tables agree, to `end`."""

    title: str
    measure: str
    score: Score
    end: float

    def place(self, value: float) -> float:
        """Return the position of a value on the scale, from 0 to 1."""
        return min(value / self.end, 1.0) if self.end > 0 else 0.0


@dataclass(frozen=True)
class PairRow:
    """Pair of columns with a large error, in the list of the worst pairs."""

    name: str
    numbers: tuple[str, ...]  # the error, and numbers to compare it with


def write_report(evaluation: Evaluation, path: str | Path, *, num_held: int | None = None) -> None:
    """Write an evaluation as an HTML page with figures; the page is **not private**, and says so.

    Arguments:
        evaluation: Result of [`evaluate`][privot.evaluation.evaluate].
        path: Path of the page; if writing fails, an existing page stays.
        num_held: Number of all real records, if only a part of them was compared.

    Examples:
        `privot.write_report(privot.evaluate(model, holdout), "report.html")`
    """
    schema, model, comparison = evaluation.schema, evaluation.model, evaluation.comparison
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
        "table": comparison.table,
        "cards": cards(schema, synthetic, real, comparison, check),
        "prediction": evaluation.prediction,
        "vectors": comparison.vectors,
        "maps": _draw_maps(schema, synthetic, real),
        "images": comparison.images,
        "image_panels": [_draw_images(evaluation, name) for name in schema.images],
        "label": evaluation.label,
        "sdmetrics": evaluation.summary().get("SDMetrics"),
        "loss": None if history is None else panels.data_uri(draw_loss(history)),
        "gauges": _gauges(comparison),
    }
    pairs = _pair_fields(comparison.table)
    panels.write_page(path, "evaluation.html", fields | pairs | _shared(schema, synthetic))


def write_check_report(check: Check, model: LocalModel, path: str | Path) -> None:
    """Write a check by reports alone as an HTML page, which has the guarantee of the check.

    Arguments:
        check: Result of [`check`][privot.evaluation.checking.check].
        model: The model that was checked; the page shows samples of it.
        path: Path of the page; if writing fails, an existing page stays.
    """
    sample = model.sample(_NUM_SAMPLED, seed=0)
    column_errors = {column.column: column.error for column in check.columns}
    errors = {(pair.first, pair.second): pair.error for pair in check.pairs}
    dependence = {(pair.first, pair.second): pair.dependence for pair in check.pairs}
    rows = [
        PairRow(
            pair.name + (" †" if pair.contradicted else ""),
            (f"{pair.error:.3f}", f"{pair.dependence:.3f}", f"{pair.people:,}"),
        )
        for pair in sorted(check.pairs, key=lambda pair: -pair.error)[:_MAX_PAIRS]
    ]
    correlated = [pair for pair in check.pairs if pair.correlation and pair.rank_correlation]
    words = ("error to expect", "error to expect", "dependence, by the model")
    fields = {
        "check": check,
        "verdict": check.verdict,
        "cards": cards(model.schema, sample, None, None, check),
        "heat": _heat_map(column_errors, errors, dependence, words) if errors else None,
        "worst": rows,
        "correlations": [
            PairRow(pair.name, (*_interval(pair.rank_correlation), *_interval(pair.correlation)))
            for pair in sorted(correlated, key=_rank_correlation)[:_MAX_PAIRS]
        ],
        "maps": _draw_maps(model.schema, sample),
    }
    panels.write_page(path, "check.html", fields | _shared(model.schema, sample))


def _rank_correlation(pair: PairCheck) -> float:
    """Return a key that sorts pairs by their rank correlation in the model, the strongest first."""
    return -abs(pair.rank_correlation.model) if pair.rank_correlation else 0.0


def _interval(value: ValueCheck | None) -> tuple[str, str]:
    """Format a model's correlation, and its interval by the reports."""
    assert value is not None  # a listed pair has both correlations
    numbers = (value.model, value.reports.low, value.reports.high)
    model, low, high = (f"{number:.2f}".replace("-", "−") for number in numbers)
    return model, f"{low} … {high}"


def _shared(schema: Schema, synthetic: pa.Table) -> dict[str, Any]:
    """Return the fields that both pages have: limits, and some rows as text."""
    names = [name for name in synthetic.column_names if name not in schema.images]
    shown, records = names[:_MAX_SHOWN], synthetic.slice(0, _ROWS).to_pylist()
    rows = [[_cell_text(record[name]) for name in shown] for record in records]
    return {
        "unit": schema.unit,
        "num_cards": len([name for name in schema.table_columns if name not in schema.images]),
        "max_columns": MAX_COLUMNS,
        "max_paired": charts.MAX_PAIRED,
        "sample": {"names": shown, "rows": rows if shown else [], "more": len(names) - len(shown)},
    }


def _gauges(comparison: Comparison) -> list[Gauge]:
    """Return gauges of the mean scores; each scale ends just above the largest value to show."""
    summary = comparison.summary
    ends = {
        name: 1.04 * max(score.synthetic, score.floor, score.independence or 0.0)
        for name, score in summary.items()
    }
    if "one_way" in ends:
        # Columns and pairs, both in total variation, have the same scale.
        ends["one_way"] = max(ends["one_way"], ends.get("two_way", 0.0))
    return [Gauge(*_MEASURES[name], score, ends[name]) for name, score in summary.items()]


def _pair_fields(table: TableComparison | None) -> dict[str, Any]:
    """Return the heat map of pairs, and the rows of those with the largest errors."""
    if table is None or not table.pairs:
        return {"heat": None, "worst": []}
    column_errors = {row.column: row.total_variation.synthetic for row in table.columns}
    scores = {(pair.first, pair.second): pair.total_variation for pair in table.pairs}
    paired = dict.fromkeys(name for pair in scores for name in pair)
    diagonal = {name: column_errors[name] for name in paired}
    errors = {pair: score.synthetic for pair, score in scores.items()}
    independence = {pair: score.independence or 0.0 for pair, score in scores.items()}
    heat = _heat_map(diagonal, errors, independence, ("error", "error", "independent columns"))
    rows = []
    for pair in sorted(scores, key=lambda pair: -errors[pair])[:_MAX_PAIRS]:
        numbers = errors[pair], scores[pair].floor, independence[pair]
        rows.append(PairRow(" × ".join(pair), tuple(f"{number:.3f}" for number in numbers)))
    return {"heat": heat, "worst": rows}


def _heat_map(
    diagonal: Mapping[str, float],
    below: Mapping[tuple[str, str], float],
    above: Mapping[tuple[str, str], float],
    words: tuple[str, str, str],
) -> Markup:
    """Return the heat map of the columns of `diagonal` as SVG, with a description."""
    figure = charts.draw_heat_map(diagonal, below, above, words)
    description = f"Every pair of columns: below the diagonal {words[1]}, above it {words[2]}"
    return panels.inline_svg(figure, description, min(1.25 * 72 * figure.get_figwidth(), 820))


def _cell_text(value: object) -> str:
    if value is None:
        return "–"
    return charts.shorten(f"{value:.6g}" if isinstance(value, float) else str(value), _MAX_LETTERS)


def _draw_images(evaluation: Evaluation, name: str) -> str:
    """Draw real images, noised synthetic ones if the model is local, and synthetic ones."""
    column, model = evaluation.schema.images[name], evaluation.model
    synthetic = panels.unit_images(column, name, evaluation.synthetic)
    image_panels = [
        panels.ImagePanel(
            "Real", f"{name}, of real records", panels.unit_images(column, name, evaluation.real)
        ),
        panels.ImagePanel("Synthetic", "samples of the model", synthetic),
    ]
    if isinstance(model, LocalModel):
        # Samples of the model are privatized, so no person's budget is spent on the figure.
        reports = model.randomizer.privatize(evaluation.synthetic.slice(0, 512))
        words = "what a device sends, here of synthetic images"
        image_panels.insert(
            1, panels.ImagePanel("Noised", words, *panels.reported_images(reports, name))
        )
    return panels.data_uri(panels.draw_image_panels(image_panels), dpi=130)


def _draw_maps(schema: Schema, synthetic: pa.Table, real: pa.Table | None = None) -> list[str]:
    """Draw maps of two-dimensional vectors, of real records (if any) and of synthetic ones."""
    maps = []
    for name, column in schema.vectors.items():
        parts = column.table_columns(name)
        if len(parts) != 2:
            continue
        samples = panels.present_points(column, name, synthetic)
        shown = [panels.Map("Synthetic", "samples of the model", samples)]
        if real is not None:
            shown.insert(0, panels.Map("Real", name, panels.present_points(column, name, real)))
        geographic = "latitude" in parts[1].lower()
        limits = panels.limits_of([panel.points for panel in shown])
        maps.append(
            panels.data_uri(panels.draw_maps(shown, (limits[0], limits[1]), geographic=geographic))
        )
    return maps

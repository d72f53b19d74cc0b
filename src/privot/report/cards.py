"""A card for every column: bars of categories, a histogram of numbers, and a few facts beside.

Cards show synthetic records beside real ones, or beside what reports alone say, or both. Real records
appear as shares and quantiles, never one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from privot.evaluation import Check, ColumnCheck, Comparison, NumberCheck, NumberScore
from privot.evaluation.numbers import number_series
from privot.evaluation.verdict import COLUMN, NUMBER, Grade, grade, percent
from privot.report.bars import Bar, bars_of
from privot.report.heat import worst
from privot.report.histograms import Histogram, draw_histogram, tell_number
from privot.schema import Array, Schema

MOST_COLUMNS = 60
_LONGEST_LABEL = 24


@dataclass(frozen=True)
class Fact:
    """A row below a histogram: the model's number, the real one, and the reports' interval."""

    name: str
    synthetic: str
    real: str = ""
    reports: tuple[str, str] | None = None


@dataclass(frozen=True)
class Card:
    """One column, or one coordinate.

    Arguments:
        name: Of the table's column.
        error: What it is graded by.
        score: The same in words.
        grade: How good it is.
        bars: Of categories.
        histogram: Of numbers.
        facts: Below a histogram.
        note: A sentence below all, or nothing.
    """

    name: str
    error: float
    score: str
    grade: Grade
    bars: tuple[Bar, ...] = ()
    histogram: Histogram | None = None
    facts: tuple[Fact, ...] = ()
    note: str = ""

    @property
    def scale(self) -> float:
        """The largest share, which a full bar stands for."""
        return max([bar.longest for bar in self.bars] or [1.0]) or 1.0

    @property
    def label_width(self) -> int:
        """Letters of the longest label that is shown in full."""
        return min(max([len(bar.label) for bar in self.bars] or [1]), _LONGEST_LABEL)


def cards(
    schema: Schema,
    synthetic: pa.Table,
    real: pa.Table | None,
    comparison: Comparison | None,
    check: Check | None,
) -> list[Card]:
    """Cards of all columns in the schema's order; of more than 60, those that are most wrong."""
    ours = number_series(schema, synthetic)
    truth = {} if real is None else number_series(schema, real)
    scores = {} if comparison is None else {n.name: n for n in comparison.numbers}
    told = {} if check is None else {column.column: column for column in check.columns}
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
                    found.append(_of_number(schema, part, values, score, told.get(name)))
        if name in schema.coded and name not in schema.points:
            own = told.get(name)
            bars = bars_of(schema, name, synthetic, real, () if own is None else own.shares)
            if name in errors:
                score_of = errors[name]
                words = f"{percent(score_of.synthetic)} off, floor {percent(score_of.floor)}"
                graded = grade(score_of.synthetic, COLUMN, score_of.floor)
                found.append(Card(name, score_of.synthetic, words, graded, bars))
            elif own is not None:
                found.append(Card(name, own.error, *_expected(own), bars, note=_note(own)))
    kept = worst([card.error for card in found], MOST_COLUMNS)
    return [found[i] for i in kept]


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
    histogram = draw_histogram(schema, part, synthetic, real, number)
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
    def tell(x: float) -> str:
        return tell_number(schema, part, x)

    absent = [None if each is None else float(np.isnan(each).mean()) for each in values]
    facts = []
    if number is not None or score is not None:
        pairs = [("mean", score.mean if score else None, number.mean if number else None)]
        quantiles = ((2, 1, "25 %"), (3, 2, "median"), (4, 3, "75 %"))
        for place, own, name in quantiles:
            real = score.quantiles[place] if score else None
            pairs.append((name, real, number.quantiles[own] if number else None))
        for name, both, told in pairs:
            ours = both.synthetic if both else told.model if told else 0.0
            said = (tell(told.reports.low), tell(told.reports.high)) if told else None
            facts.append(Fact(name, tell(ours), tell(both.real) if both else "", said))
    if score is not None:
        if schema.columns.get(part) is None or schema.columns[part].holds_numbers:
            std = score.std
            facts.append(Fact("std", tell(std.synthetic), tell(std.real)))
        low, high = score.tails
        facts.append(Fact("below 1 %", percent(low.synthetic), percent(low.real)))
        facts.append(Fact("above 99 %", percent(high.synthetic), percent(high.real)))
    if any(absent):
        shares = [percent(each) if each is not None else "" for each in absent]
        facts.append(Fact("missing", shares[0], shares[1]))
    return tuple(facts)

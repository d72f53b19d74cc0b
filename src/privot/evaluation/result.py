"""Evaluation of synthetic records against real ones: distances, findings, and prediction of a target.

Errors are graded by `verdicts`, so that sampling error alone does not lower a grade.

If the package sdmetrics is installed, tables also have the scores of SDMetrics' quality report, in which
numbers and dates are numerical, and all other columns categorical.

Results depend on real records: **not private**.

References:
    DataCebo, *SDMetrics: quality report* (docs.sdv.dev/sdmetrics).
"""

import importlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from privot.core.errors import PrivotError
from privot.core.summary import Summarized
from privot.evaluation import verdicts
from privot.evaluation.distances import (
    CorrelationScore,
    NumberScore,
    PointScore,
    Score,
    TableComparison,
    compare_correlations,
    compare_numbers,
    compare_tables,
    mean_score,
    number_series,
    require_records,
    score_images,
    score_points,
)
from privot.evaluation.prediction import (
    LabelScore,
    Prediction,
    label_column,
    predict_label,
    predict_target,
)
from privot.evaluation.verdicts import Finding
from privot.models import Learned, Model
from privot.schema import Schema
from privot.tables.files import as_table

NUM_ROWS = 10_000
_MIN_GAIN = 1.1  # smallest ratio of ceiling to floor at which there is dependence to learn


@dataclass(frozen=True)
class Comparison:
    """Scores of all columns of a synthetic table against a real one.

    Arguments:
        vectors: Score of each column of vectors.
        table: Scores of the columns with codes and of their pairs; None if there are none.
        images: Score of each column of images.
        numbers: Scores of numbers, dates and coordinates by value.
        correlations: Correlations of all pairs of these.
        rank_correlations: Rank correlations of the same pairs.
    """

    vectors: tuple[PointScore, ...]
    table: TableComparison | None
    images: tuple[PointScore, ...] = ()
    numbers: tuple[NumberScore, ...] = ()
    correlations: tuple[CorrelationScore, ...] = ()
    rank_correlations: tuple[CorrelationScore, ...] = ()

    @property
    def summary(self) -> dict[str, Score]:
        """Mean scores by name: of columns, pairs, numbers (KS) and correlations, if any."""
        means = {} if self.table is None else dict(self.table.summary)
        if self.numbers:
            means["ks"] = mean_score([score.ks for score in self.numbers])
        for name, scores in (
            ("correlation", self.correlations),
            ("rank_correlation", self.rank_correlations),
        ):
            if scores:
                means[name] = mean_score([score.difference for score in scores])
        return means

    @property
    def verdict(self) -> tuple[Finding, ...]:
        """Findings about the quality of the synthetic records."""
        table, findings = self.table, []
        if table is not None:
            scores = [(score.column, score.total_variation) for score in table.columns]
            findings.append(
                verdicts.judge("single columns", scores, verdicts.COLUMN, "total variation")
            )
        if self.numbers:
            scores = [(score.name, score.ks) for score in self.numbers]
            findings.append(
                verdicts.judge("numbers, value by value", scores, verdicts.NUMBER, "KS")
            )
        if table is not None and table.pairs:
            findings += _judge_pairs(table)
        for topic, pairs in (
            ("correlations", self.correlations),
            ("rank correlations", self.rank_correlations),
        ):
            if pairs:
                scores = [(f"{c.first} × {c.second}", c.difference) for c in pairs]
                findings.append(verdicts.judge_correlations(topic, scores))
        return tuple(findings)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Summarized):
    """Result of `evaluate`, which depends on real records: **not private**.

    Arguments:
        schema: Public description of a record.
        synthetic: The synthetic records that were compared.
        real: The real records.
        comparison: Scores of every column, and of pairs.
        prediction: Scores of classifiers that predict a table's target, if one was named.
        label: Accuracy of a classifier that predicts a label of images, if there is one.
        model: The model from which the synthetic records were sampled, if it is known.
        sdmetrics: Scores of SDMetrics' quality report by name, between 0 and 1; empty without it.
    """

    schema: Schema
    synthetic: pa.Table
    real: pa.Table
    comparison: Comparison
    prediction: Prediction | None = None
    label: LabelScore | None = None
    model: Model | None = None
    sdmetrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> tuple[Finding, ...]:
        """Findings about the quality of the synthetic records."""
        if self.prediction is None:
            return self.comparison.verdict
        return (*self.comparison.verdict, judge_prediction(self.prediction))

    def summary(self) -> dict[str, object]:
        """Return every score with its floor, as text; see `Summarized`."""
        facts: dict[str, object] = {}
        for name, score in self.comparison.summary.items():
            more = "" if score.independence is None else f", independence {score.independence:.4f}"
            facts[name] = f"{score.synthetic:.4f} (floor {score.floor:.4f}{more})"
        distances = {"W2": self.comparison.vectors, "sliced W2": self.comparison.images}
        for measure, rows in distances.items():
            for row in rows:
                facts[row.column] = f"{measure} {row.distance:.4f} (floor {row.floor:.4f})"
        if (label := self.label) is not None:
            name = f"accuracy of {label.target}, logistic regression on images"
            facts[name] = f"{label.synthetic:.1%} (from real {label.real:.1%})"
        if (prediction := self.prediction) is not None:
            for result in prediction.scores:
                name = f"{prediction.measure} of {prediction.target}, {result.classifier}"
                facts[name] = f"{result.synthetic:.4f} (from real {result.real:.4f})"
        if self.sdmetrics:
            scores = [f"{name} {score:.1%}" for name, score in self.sdmetrics.items()]
            facts["SDMetrics"] = ", ".join(scores)
        return facts


def evaluate(
    synthetic: Any,
    real: Any,
    schema: Schema | None = None,
    *,
    target: str | None = None,
    num_rows: int = NUM_ROWS,
    seed: int = 0,
) -> Evaluation:
    """Compare a model, or a table, with real records. The result is **not private**.

    Arguments:
        synthetic: A model, which is sampled, or a table of synthetic records.
        real: A table of real records, preferably of people whom the model was not learned from.
        schema: Schema of a table; not needed for a model.
        target: Column of categories or numbers to predict from the others; with images, column of
            categories to predict from them, by default the only one.
        num_rows: Number of records to sample from a model.
        seed: Seed of sampling, of subsamples and of folds.

    Returns:
        An `Evaluation`; its `verdict` has findings in words.

    Raises:
        PrivotError: if a table has no schema or does not fit it, or the target cannot be predicted.

    Examples:
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> evaluate({"bit": [True] * 90 + [False] * 10}, {"bit": [True] * 100}, schema)
        Evaluation(one_way: 0.1000 (floor 0.0000))
    """
    model = synthetic if isinstance(synthetic, Model) else None
    if model is not None:
        schema, sample = model.schema, model.sample(num_rows, seed=seed)
    elif isinstance(synthetic, Learned) or schema is None:
        raise PrivotError(
            f"{type(synthetic).__name__} is not sampled here: give a table of its records, and the "
            "schema"
        )
    else:
        sample = as_table(synthetic)
    truth = as_table(real)
    comparison = compare(schema, sample, truth, seed=seed)
    prediction = label = None
    if schema.images:
        target = target or label_column(schema)
        if target is not None:
            label = predict_label(schema, sample, truth, target, seed)
    elif target is not None:
        prediction = predict_target(schema, sample, truth, target, seed)
    scores = sdmetrics_scores(schema, sample, truth)
    return Evaluation(schema, sample, truth, comparison, prediction, label, model, scores)


def sdmetrics_scores(schema: Schema, synthetic: pa.Table, real: pa.Table) -> dict[str, float]:
    """Return the scores of SDMetrics' quality report: overall, and of its properties, by name.

    They are empty if the package is missing, and for images. Dates are numbers here, so that both tables
    count in the same unit.
    """
    if schema.images:
        return {}
    try:  # imported late, as it takes seconds and is optional
        reports = importlib.import_module("sdmetrics.reports.single_table")
    except ImportError:
        return {}
    tables = [number_series(schema, synthetic), number_series(schema, real)]
    columns = {name: {"sdtype": "numerical"} for name in tables[0]}
    for name, column in schema.coded.items():
        if name in schema.points:
            continue
        columns[name] = {"sdtype": "categorical"}
        labels = np.array(column.labels, dtype=object)
        if column.alphabet.missing is not None:
            labels[column.alphabet.missing] = None
        for table, records in zip(tables, (synthetic, real), strict=True):
            table[name] = labels[column.encode_codes(name, records)]
    ours, theirs = map(importlib.import_module("pandas").DataFrame, tables)
    report = reports.QualityReport()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report.generate(theirs, ours, {"columns": columns}, verbose=False)
    properties = report.get_properties()
    scores = {"overall": report.get_score()} | dict(
        zip(properties["Property"].str.lower(), properties["Score"], strict=True)
    )
    return {name: float(score) for name, score in scores.items() if not np.isnan(score)}


def compare(
    schema: Schema, synthetic: Any, real: Any, num_points: int = 2000, seed: int = 0
) -> Comparison:
    """Compare every column of two tables.

    Arguments:
        schema: Public description of a record.
        synthetic: Records of a model: a pandas, polars or pyarrow table, or a dict of columns.
        real: Real records, likewise.
        num_points: Largest number of points, or of images, in a subsample.
        seed: Seed of subsamples and floors.

    Returns:
        A `Comparison`; its `summary` has mean scores, and its `verdict` findings in words.

    Raises:
        PrivotError: if the tables do not fit the schema, or have fewer than 4 records.

    Examples:
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> real, synthetic = {"bit": [True, False] * 10}, {"bit": [True, True] * 10}
        >>> list(compare(schema, synthetic, real).summary)
        ['one_way']
    """
    synthetic, real = as_table(synthetic), as_table(real)
    require_records(schema, synthetic, real)
    table = None
    # The cells of vectors are compared only if there are other columns, for the pairs with these.
    if len(schema.coded) > 1 or schema.coded.keys() - schema.vectors.keys():
        table = compare_tables(schema, synthetic, real, seed)
    return Comparison(
        tuple(score_points(schema, n, synthetic, real, num_points, seed) for n in schema.vectors),
        table,
        tuple(score_images(schema, n, synthetic, real, num_points, seed) for n in schema.images),
        compare_numbers(schema, synthetic, real, seed),
        compare_correlations(schema, synthetic, real, seed),
        compare_correlations(schema, synthetic, real, seed, of_ranks=True),
    )


def _judge_pairs(table: TableComparison) -> list[Finding]:
    """Return findings about the errors of pairs, and about the gain over independent columns."""
    named = [(f"{pair.first} × {pair.second}", pair.total_variation) for pair in table.pairs]
    errors = verdicts.judge("pairs of columns", named, verdicts.PAIR, "total variation")
    mean = table.summary["two_way"]
    assert mean.independence is not None  # every pair has a ceiling
    if mean.independence <= _MIN_GAIN * mean.floor:
        words = "the real columns hardly depend on each other: there is nothing to find"
        return [errors, Finding(verdicts.DEPENDENCE, "unknown", words)]
    share = (mean.independence - mean.synthetic) / (mean.independence - mean.floor)
    words = f"{verdicts.percent(min(1.0, share))} of the way from independent columns to a perfect model"
    if share < 0:
        words = "independent columns would have been closer to the real pairs"
    grade = verdicts.grade_share(share, verdicts.GAINED)
    return [errors, Finding(verdicts.DEPENDENCE, grade, words)]


def judge_prediction(prediction: Prediction) -> Finding:
    """Return a finding about the share of the best classifier's score that synthetic records retain."""
    best = max(prediction.scores, key=lambda score: score.real)
    topic, chance = f"predicting {prediction.target}", verdicts.CHANCE[prediction.measure]
    words = (
        f"{best.classifier} has {prediction.measure} {best.synthetic:.3f} learned from synthetic "
        f"records, {best.real:.3f} learned from real ones"
    )
    if best.real - chance < verdicts.MIN_ABOVE_CHANCE:
        return Finding(topic, "unknown", f"{words}: real records do not predict it either")
    retained = (best.synthetic - chance) / (best.real - chance)
    return Finding(topic, verdicts.grade_share(retained, verdicts.RETAINED), words)

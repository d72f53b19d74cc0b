"""What was learned against real records: tables of codes, numbers by value, the others by distances.

Results depend on real records: **not private**.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from privot.core.errors import PrivotError
from privot.core.summary import Summarized
from privot.evaluation.distances import (
    PointScore,
    Score,
    TableComparison,
    compare_tables,
    mean_score,
    require_records,
    score_images,
    score_points,
)
from privot.evaluation.prediction import (
    LabelScore,
    Prediction,
    label_column,
    predict_label,
    predict_number,
    predict_target,
)
from privot.evaluation.verdicts import (
    CorrelationScore,
    Finding,
    NumberScore,
    compare_correlations,
    compare_numbers,
    of_columns,
    of_correlations,
    of_numbers,
    of_pairs,
    of_prediction,
)
from privot.models import Learned, Model
from privot.schema import Schema
from privot.tables.files import as_table

NUM_ROWS = 10_000


@dataclass(frozen=True)
class Comparison:
    """All columns: vectors and images one by one, the others as a table (None if there are none).

    Numbers, and coordinates, are compared by their values, too.

    Examples:
        >>> home = PointScore("home", distance=0.2, floor=0.1)
        >>> Comparison(vectors=(home,), table=None).verdict
        ()
    """

    vectors: tuple[PointScore, ...]
    table: TableComparison | None
    images: tuple[PointScore, ...] = ()
    numbers: tuple[NumberScore, ...] = ()
    correlations: tuple[CorrelationScore, ...] = ()

    @property
    def summary(self) -> dict[str, Score]:
        """Means: of columns, pairs, numbers by their KS, correlations, if any."""
        means = {} if self.table is None else dict(self.table.summary)
        if self.numbers:
            means["ks"] = mean_score([score.ks for score in self.numbers])
        if self.correlations:
            means["correlation"] = mean_score([score.difference for score in self.correlations])
        return means

    @property
    def verdict(self) -> tuple[Finding, ...]:
        """What they may be used for."""
        table, found = self.table, []
        if table is not None:
            found.append(of_columns(table.columns))
        if self.numbers:
            found.append(of_numbers(self.numbers))
        if table is not None and table.pairs:
            found += of_pairs(table.pairs, table)
        if self.correlations:
            found.append(of_correlations(self.correlations))
        return tuple(found)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Summarized):
    """How far synthetic records are from real ones. It depends on real records: **not private**.

    Arguments:
        schema: What a record may be.
        synthetic: The records that were compared.
        real: What they were compared with.
        comparison: Of every column, and of pairs.
        prediction: How well a target is told by classifiers of tables, if one was named.
        label: The same of images.
        model: What the synthetic records were drawn from, if it is known.
    """

    schema: Schema
    synthetic: pa.Table
    real: pa.Table
    comparison: Comparison
    prediction: Prediction | None = None
    label: LabelScore | None = None
    model: Model | None = None

    @property
    def verdict(self) -> tuple[Finding, ...]:
        """What the synthetic records may be used for."""
        told = () if self.prediction is None else (of_prediction(self.prediction),)
        return self.comparison.verdict + told

    def summary(self) -> dict[str, object]:
        """See `Summarized`: every score, beside what a perfect model would have."""
        facts: dict[str, object] = {}
        for name, score in self.comparison.summary.items():
            alone = "" if score.independence is None else f", independence {score.independence:.4f}"
            facts[name] = f"{score.synthetic:.4f} (floor {score.floor:.4f}{alone})"
        for row in self.comparison.vectors:
            facts[row.column] = f"W2 {row.distance:.4f} (floor {row.floor:.4f})"
        for row in self.comparison.images:
            facts[row.column] = f"sliced W2 {row.distance:.4f} (floor {row.floor:.4f})"
        if (label := self.label) is not None:
            name = f"accuracy of {label.target}, logistic regression on images"
            facts[name] = f"{label.synthetic:.1%} (from real {label.real:.1%})"
        if (told := self.prediction) is not None:
            for each in told.scores:
                scores = f"{each.synthetic:.4f} (from real {each.real:.4f})"
                facts[f"{told.measure} of {told.target}, {each.classifier}"] = scores
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
        real: A table of real records, best of people whom the model was not learned from.
        schema: Of a table; a model brings its own.
        target: A column of categories that classifiers tell from the others, trained on either table,
            or one of numbers, by regressions. Of images, the one such column that they have, unless
            another is named.
        num_rows: How many records of a model to draw.
        seed: Of the draw, of subsamples and of folds.

    Raises:
        PrivotError: for a table without its schema, tables that do not fit it, or a target that cannot
            be told.

    Examples:
        >>> schema = Schema.from_toml('''
        ... [columns.color]
        ... kind = "categorical"
        ... categories = ["red", "blue"]
        ... ''')
        >>> evaluate({"color": ["red"] * 90 + ["blue"] * 10}, {"color": ["red"] * 100}, schema)
        Evaluation(one_way: 0.1000 (floor 0.0000))
    """
    model = synthetic if isinstance(synthetic, Model) else None
    if model is not None:
        schema, drawn = model.schema, model.sample(num_rows, seed=seed)
    elif isinstance(synthetic, Learned) or schema is None:
        raise PrivotError(
            f"{type(synthetic).__name__} is not drawn from here: give a table of its records, and the "
            "schema"
        )
    else:
        drawn = as_table(synthetic)
    truth = as_table(real)
    comparison = compare(schema, drawn, truth, seed=seed)
    prediction = label = None
    if schema.images:
        target = target or label_column(schema)
        if target is not None:
            label = predict_label(schema, drawn, truth, target, seed)
    elif target is not None:
        column = schema.columns.get(target)
        predict = predict_number if column is not None and column.is_number else predict_target
        prediction = predict(schema, drawn, truth, target, seed)
    return Evaluation(schema, drawn, truth, comparison, prediction, label, model)


def compare(
    schema: Schema, synthetic: Any, real: Any, num_points: int = 2000, seed: int = 0
) -> Comparison:
    """Compare every column of two tables.

    Arguments:
        schema: What a record may be.
        synthetic: Records of a model: a pandas, polars or pyarrow table, or a dict of columns.
        real: Real records, likewise.
        num_points: Most points of a vector's subsamples, or images.
        seed: Of subsamples and floors.

    Raises:
        PrivotError: if the tables do not fit the schema, or hold fewer than 4 records.

    Examples:
        >>> schema = Schema.from_dict({"columns": {"bit": {"kind": "boolean"}}})
        >>> real, synthetic = {"bit": [True, False] * 10}, {"bit": [True, True] * 10}
        >>> list(compare(schema, synthetic, real).summary)
        ['one_way']
    """
    synthetic, real = as_table(synthetic), as_table(real)
    require_records(schema, synthetic, real)
    table = None
    # A place alone is compared by its distance; beside others its cells tell what goes with what.
    if len(schema.coded) > 1 or schema.coded.keys() - schema.vectors.keys():
        table = compare_tables(schema, synthetic, real, seed)
    return Comparison(
        tuple(score_points(schema, n, synthetic, real, num_points, seed) for n in schema.vectors),
        table,
        tuple(score_images(schema, n, synthetic, real, num_points, seed) for n in schema.images),
        compare_numbers(schema, synthetic, real, seed),
        compare_correlations(schema, synthetic, real, seed),
    )

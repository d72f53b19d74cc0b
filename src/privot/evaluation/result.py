"""One call that compares what was learned with real records. Its result is **not private**."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from privot.errors import PrivotError
from privot.evaluation.compare import Comparison, compare
from privot.evaluation.prediction import (
    LabelScore,
    Prediction,
    label_column,
    predict_label,
    predict_target,
)
from privot.models import Learned, Model
from privot.release import as_table
from privot.schema import Schema
from privot.summary import Summarized

NUM_ROWS = 10_000


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Summarized):
    """How far synthetic records are from real ones. It depends on real records: **not private**.

    Arguments:
        synthetic: The records that were compared.
        real: What they were compared with.
        comparison: Of every column, and of pairs.
        prediction: How well a target is told by classifiers of tables, if one was named.
        label: The same of images.
    """

    synthetic: pa.Table
    real: pa.Table
    comparison: Comparison
    prediction: Prediction | None = None
    label: LabelScore | None = None

    def summary(self) -> dict[str, object]:
        """See `Summarized`: every score, beside what a perfect model would have."""
        facts: dict[str, object] = {}
        table = self.comparison.table
        for name, score in ({} if table is None else table.summary).items():
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
                facts[f"AUC of {told.target}, {each.classifier}"] = scores
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
        target: A column of categories that classifiers tell from the others, trained on either table.
            Of images, the one such column that they have, unless another is named.
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
    if isinstance(synthetic, Model):
        schema, drawn = synthetic.schema, synthetic.sample(num_rows, seed=seed)
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
        prediction = predict_target(schema, drawn, truth, target, seed)
    return Evaluation(drawn, truth, comparison, prediction, label)

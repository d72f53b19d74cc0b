r"""Train on synthetic, test on real, of a number: how much of it the other columns tell.

Ridge regression sees each column's own effect, gradient boosted trees what columns do together. Their
score on real records is $R^2 = 1 − \sum (y − ŷ)^2 / \sum (y − \bar y)^2$: 1 if they tell the number
exactly, 0 if no better than its mean, below 0 if worse. Inputs, folds and who is tested on what are as
in `prediction`.

Needs scikit-learn. Every result depends on real records: **not private**.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from privot.errors import PrivotError
from privot.evaluation.distances import Array, Codes
from privot.evaluation.prediction import (
    FOLDS,
    ClassifierScore,
    Prediction,
    as_numbers,
    deal_folds,
    named_columns,
    one_hot,
    require_sklearn,
    sklearn,
)
from privot.evaluation.tables import require_records
from privot.schema import Schema


def predict_number(
    schema: Schema, synthetic: pa.Table, real: pa.Table, target: str, seed: int = 0
) -> Prediction:
    """R² of ridge regression and gradient boosting, trained on either table; **not private**.

    Arguments:
        schema: What a record may be; all its columns that have codes are looked at.
        synthetic: Records of a model.
        real: Real records, held out if the synthetic-trained regression is to be new to them.
        target: A column of numbers or dates; records where it is missing are left out.
        seed: Of folds and trees.

    Raises:
        PrivotError: without scikit-learn; if the target is the only column; if the real records are
            fewer than 10, or have one value.
    """
    require_sklearn()
    require_records(schema, synthetic, real)
    if len(schema.coded) < 2:
        raise PrivotError(f"target {target!r} is the only column: there is nothing to tell it from")
    ours, our_answers = with_known_number(schema, target, synthetic)
    theirs, answers = with_known_number(schema, target, real)
    if len(answers) < 2 * FOLDS or len(our_answers) < 2 or np.ptp(answers) == 0:
        raise PrivotError(
            f"target {target!r} has {len(np.unique(answers))} values in {len(answers)} real records: "
            f"give at least two values, and {2 * FOLDS} records"
        )
    folds = deal_folds(np.zeros(len(answers), np.int64), np.random.default_rng(seed))
    trees = sklearn("ensemble").HistGradientBoostingRegressor(
        categorical_features=named_columns(schema, target), random_state=seed
    )
    ridge = sklearn("linear_model").Ridge(alpha=1.0)
    scores = []
    for name, regression, inputs in (
        ("ridge regression", ridge, one_hot),
        ("gradient boosting", trees, as_numbers),
    ):
        x, y = inputs(schema, ours), inputs(schema, theirs)
        told, trained = regression.fit(x, our_answers).predict(y), np.empty(len(answers))
        for fold in range(FOLDS):
            rest, part = folds != fold, folds == fold
            trained[part] = regression.fit(y[rest], answers[rest]).predict(y[part])
        scores.append(ClassifierScore(name, _r2(answers, told), _r2(answers, trained)))
    return Prediction(target, len(our_answers), len(answers), tuple(scores), measure="R²")


def with_known_number(
    schema: Schema, target: str, table: pa.Table
) -> tuple[dict[str, Codes], Array]:
    """Codes of the other columns, and the number, of records that have it."""
    codes = {name: column.encode_codes(name, table) for name, column in schema.coded.items()}
    del codes[target]
    numbers: Array = schema.coded[target].accept(target, table)
    known = ~np.isnan(numbers)
    return {name: values[known] for name, values in codes.items()}, numbers[known]


def _r2(truth: Array, told: Array) -> float:
    return float(1 - ((truth - told) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())

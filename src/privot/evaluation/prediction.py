"""Train on synthetic, test on real: a synthetic table in the use that tables are mostly put to.

A classifier learns to tell one column from the others, once from synthetic records and once from real
ones; both are tested on real records. The real records are cut into fifths: each is scored by the
real-trained classifier that saw the other four, and by the synthetic-trained one, which saw none (if
the real records are held out from the reports). Two classifiers, because they fail differently:
logistic regression sees each column's own effect, gradient boosted trees see what columns do together.

What they see is codes: categories, and bins by their centers. Real records without a target are left
out. A class that the synthetic table lacks is never told, and scores what guessing does, ½.

Needs scikit-learn. Every result depends on real records: **not private**.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from privot.errors import PrivotError
from privot.evaluation.auc import ClassifierScore, Prediction, area_under_curve
from privot.evaluation.pairs import Array, Codes
from privot.evaluation.tables import require_records
from privot.schema import Schema

try:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
except ModuleNotFoundError:  # an optional extra; asking for a prediction says so
    HistGradientBoostingClassifier = LogisticRegression = None

_FOLDS = 5
# Trees take columns of no more categories as such, and others in the order of their codes.
_MOST_TREE_CATEGORIES = 255


def predict_target(
    schema: Schema, synthetic: pa.Table, real: pa.Table, target: str, seed: int = 0
) -> Prediction:
    """AUC of logistic regression and gradient boosting, trained on either table; **not private**.

    Arguments:
        schema: What a record may be; all its columns but vectors are looked at.
        synthetic: Records of a model.
        real: Real records, held out if the synthetic-trained classifier is to be new to them.
        target: A categorical or boolean column.
        seed: Of folds and trees.

    Raises:
        PrivotError: without scikit-learn; if the target is not such a column, or the only one; if the
            real records are fewer than 10, or all of one class.
    """
    if LogisticRegression is None:
        raise PrivotError(
            "training classifiers needs scikit-learn: pip install 'privot[evaluate]', or name no target"
        )
    require_records(schema, synthetic, real)
    fitting = [n for n, c in schema.coded.items() if c.alphabet.centers is None]
    if target not in fitting:
        known = target in schema.columns
        kind = f"is {schema.columns[target].kind}" if known else "is not in the schema"
        raise PrivotError(
            f"target {target!r} {kind}: name a categorical or boolean one of {fitting}"
        )
    size = schema.coded[target].alphabet.size
    if len(schema.coded) < 2:
        raise PrivotError(f"target {target!r} is the only column: there is nothing to tell it from")
    ours, our_answers = _with_known_target(schema, target, synthetic)
    theirs, answers = _with_known_target(schema, target, real)
    if len(answers) < 2 * _FOLDS or len(np.unique(answers)) < 2:
        raise PrivotError(
            f"target {target!r} has {len(np.unique(answers))} values in {len(answers)} real records: "
            f"give at least two values, and {2 * _FOLDS} records"
        )
    folds = _folds(answers, np.random.default_rng(seed))
    scores = []
    for name, classifier, inputs in (
        ("logistic regression", LogisticRegression(max_iter=300), _one_hot),
        ("gradient boosting", _trees(schema, target, seed), _numbers),
    ):
        x, y = inputs(schema, ours), inputs(schema, theirs)
        told = _probabilities(classifier, x, our_answers, y, size)
        areas = []
        for fold in range(_FOLDS):
            rest, part = folds != fold, folds == fold
            trained = _probabilities(classifier, y[rest], answers[rest], y[part], size)
            held_out = answers[part]
            areas.append(
                (area_under_curve(held_out, told[part]), area_under_curve(held_out, trained))
            )
        from_synthetic, from_real = np.mean(areas, axis=0)
        scores.append(ClassifierScore(name, float(from_synthetic), float(from_real)))
    return Prediction(target, len(our_answers), len(answers), tuple(scores))


def _with_known_target(
    schema: Schema, target: str, table: pa.Table
) -> tuple[dict[str, Codes], Codes]:
    """Codes of the other columns, and of the target, of records whose target is not missing."""
    answers = schema.coded[target].encode_codes(target, table)
    missing = schema.coded[target].alphabet.missing
    known = answers >= 0 if missing is None else answers != missing
    others = {n: c for n, c in schema.coded.items() if n != target}
    return {n: c.encode_codes(n, table)[known] for n, c in others.items()}, answers[known]


def _folds(answers: Codes, rng: np.random.Generator) -> Codes:
    """A fold for each record, each with its part of every class."""
    order = rng.permutation(len(answers))
    order = order[np.argsort(answers[order], kind="stable")]
    folds = np.empty(len(answers), dtype=np.int64)
    folds[order] = np.arange(len(answers)) % _FOLDS
    return folds


def _probabilities(classifier: Any, x: Any, answers: Codes, asked: Any, size: int) -> Array:
    """Probabilities (n, K) of all classes, 0 for those that were not trained on."""
    scores = np.zeros((asked.shape[0], size))
    classes = np.unique(answers)
    if len(classes) > 1:
        scores[:, classes] = classifier.fit(x, answers).predict_proba(asked)
    return scores


def _one_hot(schema: Schema, codes: dict[str, Codes]) -> Any:
    """A sparse indicator (n, sum of sizes) of every column's code."""
    sizes = [schema.coded[name].alphabet.size for name in codes]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.stack(list(codes.values()), axis=1) + offsets[:-1]
    rows, columns = places.shape
    starts = np.arange(0, rows * columns + 1, columns)
    return csr_array((np.ones(rows * columns), places.ravel(), starts), shape=(rows, offsets[-1]))


def _numbers(schema: Schema, codes: dict[str, Codes]) -> Array:
    """Centers of bins, NaN where missing, and codes of categories, as columns (n, m)."""
    columns = []
    for name, values in codes.items():
        centers = schema.coded[name].alphabet.centers
        columns.append(values * 1.0 if centers is None else centers[values])
    return np.stack(columns, axis=1)


def _trees(schema: Schema, target: str, seed: int) -> Any:
    alphabets = [column.alphabet for name, column in schema.coded.items() if name != target]
    named = [a.centers is None and a.size <= _MOST_TREE_CATEGORIES for a in alphabets]
    return HistGradientBoostingClassifier(categorical_features=named, random_state=seed)

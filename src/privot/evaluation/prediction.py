"""Train on synthetic, test on real: synthetic records in the use that records are mostly put to.

Classifiers learn to tell one column from the others, once from synthetic records and once from real
ones; both are tested on real records. These are cut into folds: each is scored by the real-trained
classifier that saw the other folds, and by the synthetic-trained one, which saw none (if the real
records are held out from the reports).

Of a **table**, two classifiers see the codes of the other columns: categories, and bins by their
centers. They fail differently: logistic regression sees each column's own effect, gradient boosted
trees see what columns do together. Their score is the area under the receiver operating
characteristic: the chance that a record of a class gets a higher score than one of the rest, ties
counting half. Of several classes, each stands against the rest and counts by its share, so that a rare
class cannot make a loud number; scores that know nothing get ½. Real records without a target are left
out. A class that the synthetic table lacks is never told, and scores what guessing does.

Of **images**, multinomial logistic regression on pixels learns a label, and is scored by its accuracy.

Needs scikit-learn. Every result depends on real records: **not private**.

References:
    Hand, Till, *A simple generalisation of the area under the ROC curve* (2001).
    Fawcett, *An introduction to ROC analysis* (2006), for the weights.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from privot.core.errors import PrivotError
from privot.evaluation.distances import Array, Codes, require_records, unit_pixels
from privot.schema import Schema

FOLDS, _IMAGE_FOLDS = 5, 2
# Trees take columns of no more categories as such, and others in the order of their codes.
_MOST_TREE_CATEGORIES = 255
_MOST_TRAINED = 10_000  # synthetic images
_ITERATIONS = 100


@dataclass(frozen=True)
class ClassifierScore:
    """A classifier's score on real records: trained on synthetic records, and on real ones.

    Examples:
        >>> score = ClassifierScore("LogisticRegression", synthetic=0.81, real=0.84)
        >>> round(score.real - score.synthetic, 2)
        0.03
    """

    classifier: str
    synthetic: float
    real: float


@dataclass(frozen=True)
class Prediction:
    """How well one column can be told from the others, by classifiers trained on either table.

    Arguments:
        target: The column that is told.
        num_synthetic: Synthetic records trained on.
        num_real: Real records tested on; each real-trained classifier saw four fifths of them, and was
            tested on the fifth it had not seen.
        scores: One a classifier, or a regression.
        measure: Of the scores: the area under the curve, or R² of a number.

    Examples:
        >>> score = ClassifierScore("LogisticRegression", synthetic=0.81, real=0.84)
        >>> Prediction("sex", num_synthetic=1000, num_real=500, scores=(score,)).measure
        'AUC'
    """

    target: str
    num_synthetic: int
    num_real: int
    scores: tuple[ClassifierScore, ...]
    measure: str = "AUC"


@dataclass(frozen=True)
class LabelScore:
    """Accuracy of logistic regression on real images, learned from synthetic and from real ones."""

    target: str
    synthetic: float
    real: float
    num_synthetic: int
    num_real: int


def predict_target(
    schema: Schema, synthetic: pa.Table, real: pa.Table, target: str, seed: int = 0
) -> Prediction:
    """AUC of logistic regression and gradient boosting, trained on either table; **not private**.

    Arguments:
        schema: What a record may be; all its columns that have codes are looked at.
        synthetic: Records of a model.
        real: Real records, held out if the synthetic-trained classifier is to be new to them.
        target: A column of categories, as a boolean one.
        seed: Of folds and trees.

    Raises:
        PrivotError: without scikit-learn; if the target is not such a column, or the only one; if the
            real records are fewer than 10, or all of one class.
    """
    _require_target(schema, target)
    require_records(schema, synthetic, real)
    size = schema.coded[target].alphabet.size
    if len(schema.coded) < 2:
        raise PrivotError(f"target {target!r} is the only column: there is nothing to tell it from")
    ours, our_answers = with_known_target(schema, target, synthetic)
    theirs, answers = with_known_target(schema, target, real)
    if len(answers) < 2 * FOLDS or len(np.unique(answers)) < 2:
        raise PrivotError(
            f"target {target!r} has {len(np.unique(answers))} values in {len(answers)} real records: "
            f"give at least two values, and {2 * FOLDS} records"
        )
    folds = deal_folds(answers, np.random.default_rng(seed))
    scores = []
    for name, classifier, inputs in (
        (
            "logistic regression",
            sklearn("linear_model").LogisticRegression(max_iter=300),
            one_hot,
        ),
        ("gradient boosting", _trees(schema, target, seed), as_numbers),
    ):
        x, y = inputs(schema, ours), inputs(schema, theirs)
        told = _probabilities(classifier, x, our_answers, y, size)
        areas = []
        for fold in range(FOLDS):
            rest, part = folds != fold, folds == fold
            trained = _probabilities(classifier, y[rest], answers[rest], y[part], size)
            areas.append([area_under_curve(answers[part], each) for each in (told[part], trained)])
        from_synthetic, from_real = np.mean(areas, axis=0)
        scores.append(ClassifierScore(name, float(from_synthetic), float(from_real)))
    return Prediction(target, len(our_answers), len(answers), tuple(scores))


def label_column(schema: Schema) -> str | None:
    """The one category that images have, if there is exactly one and scikit-learn is installed."""
    named = _targets(schema)
    return named[0] if schema.images and len(named) == 1 and find_spec("sklearn") else None


def predict_label(
    schema: Schema, synthetic: pa.Table, real: pa.Table, target: str, seed: int = 0
) -> LabelScore:
    """Accuracy of a classifier of images, trained on either table, tested on real ones; **not private**.

    Arguments:
        schema: With one column of images or more.
        synthetic: Records of a model; at most 10 000 are learned from.
        real: Real records.
        target: A column of categories.
        seed: Of the folds.

    Raises:
        PrivotError: without scikit-learn, if the target is no category, or real records are too few.
    """
    _require_target(schema, target)
    if real.num_rows < 2 * _IMAGE_FOLDS:
        raise PrivotError(
            f"{real.num_rows} real records are too few: give at least {2 * _IMAGE_FOLDS}"
        )
    synthetic = synthetic.slice(0, _MOST_TRAINED)
    x, y = (
        np.concatenate([unit_pixels(schema, name, table) for name in schema.images], axis=1)
        for table in (synthetic, real)
    )
    labels, truth = (schema.coded[target].encode_codes(target, t) for t in (synthetic, real))
    fold = np.random.default_rng(seed).permutation(len(y)) % _IMAGE_FOLDS
    right = np.zeros(len(y), bool)
    for held_out in range(_IMAGE_FOLDS):
        test = fold == held_out
        right[test] = learn_labels(y[~test], truth[~test], y[test]) == truth[test]
    told = float((learn_labels(x, labels, y) == truth).mean())
    return LabelScore(target, told, float(right.mean()), len(x), len(y))


def learn_labels(x: np.ndarray, labels: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Labels that logistic regression, learned from points x (n, d), gives to other points."""
    if len(np.unique(labels)) < 2:
        return np.full(len(at), labels[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn("exceptions").ConvergenceWarning)
        model = sklearn("linear_model").LogisticRegression(max_iter=_ITERATIONS).fit(x, labels)
    predicted: np.ndarray = model.predict(at)
    return predicted


def area_under_curve(truth: Codes, scores: Array) -> float:
    """AUC of scores (n, K) for classes `truth` (n,) of 0 … K−1; ½ if there is only one class."""
    counts = np.bincount(truth, minlength=scores.shape[1])
    present = np.flatnonzero((counts > 0) & (counts < len(truth)))
    area = sklearn("metrics").roc_auc_score
    areas = [area(truth == k, scores[:, k]) for k in present]
    return float(np.average(areas, weights=counts[present])) if areas else 0.5


def _targets(schema: Schema) -> list[str]:
    """Columns of categories."""
    return [name for name, column in schema.coded.items() if column.alphabet.centers is None]


def require_sklearn() -> None:
    """Refuse to predict without scikit-learn."""
    if find_spec("sklearn") is None:
        raise PrivotError(
            "training classifiers needs scikit-learn: pip install 'privot[evaluate]', or name no target"
        )


def _require_target(schema: Schema, target: str) -> None:
    require_sklearn()
    if target not in _targets(schema):
        known = target in schema.columns
        kind = f"is {schema.columns[target].kind}" if known else "is not in the schema"
        raise PrivotError(
            f"target {target!r} {kind}: name a categorical or boolean one of {_targets(schema)}"
        )


def with_known_target(
    schema: Schema, target: str, table: pa.Table
) -> tuple[dict[str, Codes], Codes]:
    """Codes of the other columns, and of the target, of records whose target is not missing."""
    codes = {name: column.encode_codes(name, table) for name, column in schema.coded.items()}
    answers, missing = codes.pop(target), schema.coded[target].alphabet.missing
    known = answers >= 0 if missing is None else answers != missing
    return {name: values[known] for name, values in codes.items()}, answers[known]


def deal_folds(answers: Codes, rng: np.random.Generator) -> Codes:
    """A fold for each record, each with its part of every class."""
    order = rng.permutation(len(answers))
    order = order[np.argsort(answers[order], kind="stable")]
    folds = np.empty(len(answers), dtype=np.int64)
    folds[order] = np.arange(len(answers)) % FOLDS
    return folds


def _probabilities(classifier: Any, x: Any, answers: Codes, asked: Any, size: int) -> Array:
    """Probabilities (n, K) of all classes, 0 for those that were not trained on."""
    scores = np.zeros((asked.shape[0], size))
    classes = np.unique(answers)
    if len(classes) > 1:
        scores[:, classes] = classifier.fit(x, answers).predict_proba(asked)
    return scores


def one_hot(schema: Schema, codes: dict[str, Codes]) -> Any:
    """A sparse indicator (n, sum of sizes) of every column's code."""
    sizes = [schema.coded[name].alphabet.size for name in codes]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.stack(list(codes.values()), axis=1) + offsets[:-1]
    rows, columns = places.shape
    starts = np.arange(0, rows * columns + 1, columns)
    return csr_array((np.ones(rows * columns), places.ravel(), starts), shape=(rows, offsets[-1]))


def as_numbers(schema: Schema, codes: dict[str, Codes]) -> Array:
    """Centers of bins, NaN where missing, and codes of categories, as columns (n, m)."""
    centers = [schema.coded[name].alphabet.centers for name in codes]
    columns = zip(centers, codes.values(), strict=True)
    return np.stack([values * 1.0 if at is None else at[values] for at, values in columns], axis=1)


def named_columns(schema: Schema, target: str) -> list[bool]:
    """Which columns, but for the target, trees take as categories."""
    alphabets = [column.alphabet for name, column in schema.coded.items() if name != target]
    return [each.centers is None and each.size <= _MOST_TREE_CATEGORIES for each in alphabets]


def _trees(schema: Schema, target: str, seed: int) -> Any:
    trees = sklearn("ensemble").HistGradientBoostingClassifier
    return trees(categorical_features=named_columns(schema, target), random_state=seed)


def sklearn(module: str) -> Any:
    """A module of scikit-learn, loaded by the first prediction: comparisons do without."""
    return import_module(f"sklearn.{module}")


# Train on synthetic, test on real, of a number: how much of it the other columns tell.
#
# Ridge regression sees each column's own effect, gradient boosted trees what columns do together.
# Their score on real records is $R^2 = 1 − \sum (y − ŷ)^2 / \sum (y − \bar y)^2$: 1 if they tell the
# number exactly, 0 if no better than its mean, below 0 if worse. Inputs, folds and who is tested on
# what are as in `prediction`.
#
# Needs scikit-learn. Every result depends on real records: **not private**.


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

r"""Prediction: train on synthetic, test on real; and an attacker who infers labels from single reports.

Classifiers learn to predict one column from the others, once from synthetic records and once from real
ones; both are tested on real records. These are split into folds: each is scored by the real-trained
classifier that saw the other folds, and by the synthetic-trained one, which saw none (if the real
records are held out from the reports). Real records without a target are left out.

**A category of a table** is predicted by two classifiers from the codes of the other columns:
categories, and bins by their centers. They fail differently: logistic regression uses each column's own
effect, gradient boosted trees interactions as well. Their score is the area under the receiver operating
characteristic: the chance that a record of a class gets a higher score than one of the rest, ties
counting half. Several classes stand each against the rest and count by their share, so that a rare
class cannot dominate; uninformative scores get ½. A class that the synthetic table lacks is never
predicted, and scores what guessing does.

**A number** is predicted by ridge regression and gradient boosted trees, scored by $R^2 = 1 − \sum (y −
ŷ)^2 / \sum (y − \bar y)^2$: 1 if exact, 0 if no better than its mean, below 0 if worse.

**A label of images** is predicted by multinomial logistic regression on pixels, scored by its accuracy.

**Inference of labels from single reports** (`infer_labels`). The attacker has the clean images and
labels of half of the people, hence what images of each label look like on average, and knows how reports
are made; they infer the other half's labels, each from its one report. From candidates they take the
label whose mean features lie nearest to the reported direction; from noised images, the label that is
likeliest, by its own report and by the image's distance from the mean. Another attacker may infer more.

Training needs scikit-learn. Every result depends on real records: **not private**.

References:
    Hand, Till, *A simple generalisation of the area under the ROC curve* (2001).
    Fawcett, *An introduction to ROC analysis* (2006), for the weights.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from privot.core.errors import PrivotError
from privot.evaluation.distances import Array, Codes, require_records, unit_pixels
from privot.mechanisms import RandomizedResponse
from privot.randomizer import Release
from privot.randomizer.reports.candidates import CandidatesReport
from privot.schema import Schema

FOLDS, _IMAGE_FOLDS = 5, 2
# Trees take columns of no more categories as such, and others in the order of their codes.
_MAX_TREE_CATEGORIES = 255
_MAX_TRAINED = 10_000  # synthetic images
_ITERATIONS = 100
_CHUNK = 4096


@dataclass(frozen=True)
class ClassifierScore:
    """Scores of a classifier on real records: trained on synthetic records, and on real ones."""

    classifier: str
    synthetic: float
    real: float


@dataclass(frozen=True)
class Prediction:
    """Scores of classifiers that predict one column from the others, trained on either table.

    Arguments:
        target: The column that is predicted.
        num_synthetic: Number of synthetic records trained on.
        num_real: Number of real records tested on; each real-trained classifier saw four fifths of
            them, and was tested on the fifth it had not seen.
        scores: One a classifier, or a regression.
        measure: Measure of the scores: the area under the curve, or R² of a number.
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
    """Return the AUC of logistic regression and boosting, trained on either table; **not private**.

    Arguments:
        schema: Public description of a record; all its columns that have codes are used.
        synthetic: Records of a model.
        real: Real records, held out if the synthetic-trained classifier is to be new to them.
        target: A column of categories, as a boolean one.
        seed: Seed of folds and trees.

    Raises:
        PrivotError: without scikit-learn; if the target is not such a column, or the only one; if the
            real records are fewer than 10, or all of one class.
    """
    _require_target(schema, target)
    tables = _known(schema, synthetic, real, target)
    answers, size = tables[1][1], schema.coded[target].alphabet.size
    folds = deal_folds(answers, np.random.default_rng(seed))

    def predict(classifier: Any, x: Any, answers: Codes, at: Any) -> Array:
        scores, classes = np.zeros((at.shape[0], size)), np.unique(answers)
        if len(classes) > 1:
            scores[:, classes] = classifier.fit(x, answers).predict_proba(at)
        return scores

    def area(scores: Array) -> float:
        parts = (folds == fold for fold in range(FOLDS))
        return float(np.mean([area_under_curve(answers[part], scores[part]) for part in parts]))

    learners = {
        "logistic regression": sklearn("linear_model").LogisticRegression(max_iter=300),
        "gradient boosting": sklearn("ensemble").HistGradientBoostingClassifier(
            categorical_features=_categorical(schema, target), random_state=seed
        ),
    }
    return _cross_validated(schema, target, tables, folds, learners, (predict, area, "AUC"))


def predict_number(
    schema: Schema, synthetic: pa.Table, real: pa.Table, target: str, seed: int = 0
) -> Prediction:
    """Return R² of ridge regression and gradient boosting, trained on either table; **not private**.

    As `predict_target`, for a target of numbers or dates.
    """
    require_sklearn()
    tables = _known(schema, synthetic, real, target)
    answers = tables[1][1]
    folds = deal_folds(np.zeros(len(answers), np.int64), np.random.default_rng(seed))

    def predict(regression: Any, x: Any, answers: Array, at: Any) -> Any:
        return regression.fit(x, answers).predict(at)

    def explained(values: Array) -> float:
        return float(1 - ((answers - values) ** 2).sum() / ((answers - answers.mean()) ** 2).sum())

    learners = {
        "ridge regression": sklearn("linear_model").Ridge(alpha=1.0),
        "gradient boosting": sklearn("ensemble").HistGradientBoostingRegressor(
            categorical_features=_categorical(schema, target), random_state=seed
        ),
    }
    return _cross_validated(schema, target, tables, folds, learners, (predict, explained, "R²"))


Known = tuple[dict[str, Codes], Any]  # codes of the other columns, and the target


def _known(schema: Schema, synthetic: pa.Table, real: pa.Table, target: str) -> tuple[Known, Known]:
    """Encode records of both tables with a target; refuse too few of them."""
    require_records(schema, synthetic, real)
    if len(schema.coded) < 2:
        raise PrivotError(
            f"target {target!r} is the only column: there is nothing to predict it from"
        )
    ours, theirs = (with_known_target(schema, target, table) for table in (synthetic, real))
    number, values = len(theirs[1]), len(np.unique(theirs[1]))
    too_few = schema.coded[target].is_number and len(ours[1]) < 2
    if number < 2 * FOLDS or values < 2 or too_few:
        raise PrivotError(
            f"target {target!r} has {values} values in {number} real records: "
            f"give at least two values, and {2 * FOLDS} records"
        )
    return ours, theirs


def _cross_validated(
    schema: Schema,
    target: str,
    tables: tuple[Known, Known],
    folds: Codes,
    learners: Mapping[str, Any],
    how: tuple[Callable[..., Array], Callable[[Array], float], str],
) -> Prediction:
    """Score learners (linear, then trees) of synthetic records, and cross-validated on real ones."""
    (ours, our_answers), (theirs, answers) = tables
    predict, measure, name_of_measure = how
    scores = []
    for (name, learner), inputs in zip(learners.items(), (one_hot, as_numbers), strict=True):
        x, y = inputs(schema, ours), inputs(schema, theirs)
        learned = predict(learner, x, our_answers, y)
        trained = np.empty_like(learned)
        for fold in range(FOLDS):
            rest, part = folds != fold, folds == fold
            trained[part] = predict(learner, y[rest], answers[rest], y[part])
        scores.append(ClassifierScore(name, measure(learned), measure(trained)))
    return Prediction(target, len(our_answers), len(answers), tuple(scores), name_of_measure)


def label_column(schema: Schema) -> str | None:
    """Return the one category that images have, if exactly one and scikit-learn is installed."""
    named = _targets(schema)
    return named[0] if schema.images and len(named) == 1 and find_spec("sklearn") else None


def predict_label(
    schema: Schema, synthetic: pa.Table, real: pa.Table, target: str, seed: int = 0
) -> LabelScore:
    """Return the accuracy of a classifier of images, trained on either table; **not private**.

    At most 10 000 synthetic images are learned from. The target is a column of categories.

    Raises:
        PrivotError: without scikit-learn, if the target is no category, or real records are too few.
    """
    _require_target(schema, target)
    if real.num_rows < 2 * _IMAGE_FOLDS:
        raise PrivotError(
            f"{real.num_rows} real records are too few: give at least {2 * _IMAGE_FOLDS}"
        )
    synthetic = synthetic.slice(0, _MAX_TRAINED)
    x, y = (
        np.concatenate([unit_pixels(schema, name, table) for name in schema.images], axis=1)
        for table in (synthetic, real)
    )
    labels, truth = (schema.coded[target].encode_codes(target, t) for t in (synthetic, real))
    fold = np.random.default_rng(seed).permutation(len(y)) % _IMAGE_FOLDS
    right = np.zeros(len(y), bool)
    for number in range(_IMAGE_FOLDS):
        test = fold == number
        right[test] = learn_labels(y[~test], truth[~test], y[test]) == truth[test]
    accuracy = float((learn_labels(x, labels, y) == truth).mean())
    return LabelScore(target, accuracy, float(right.mean()), len(x), len(y))


def learn_labels(x: np.ndarray, labels: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Predict labels of other points by logistic regression, learned from points x (n, d)."""
    if len(np.unique(labels)) < 2:
        return np.full(len(at), labels[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn("exceptions").ConvergenceWarning)
        model = sklearn("linear_model").LogisticRegression(max_iter=_ITERATIONS).fit(x, labels)
    predicted: np.ndarray = model.predict(at)
    return predicted


def area_under_curve(truth: Codes, scores: Array) -> float:
    """Return the AUC of scores (n, K) for classes `truth` (n,) of 0 … K−1; ½ of only one class."""
    counts = np.bincount(truth, minlength=scores.shape[1])
    present = np.flatnonzero((counts > 0) & (counts < len(truth)))
    area = sklearn("metrics").roc_auc_score
    areas = [area(truth == k, scores[:, k]) for k in present]
    return float(np.average(areas, weights=counts[present])) if areas else 0.5


def _targets(schema: Schema) -> list[str]:
    """List columns of categories."""
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


def with_known_target(schema: Schema, target: str, table: pa.Table) -> Known:
    """Return codes of the other columns and of the target, or its numbers, where it is not missing."""
    codes = {name: column.encode_codes(name, table) for name, column in schema.coded.items()}
    answers, column = codes.pop(target), schema.coded[target]
    known = answers != (-1 if column.alphabet.missing is None else column.alphabet.missing)
    if column.is_number:
        answers = column.accept(target, table)
    return {name: values[known] for name, values in codes.items()}, answers[known]


def deal_folds(answers: Codes, rng: np.random.Generator) -> Codes:
    """Assign a fold to each record, stratified by class."""
    order = rng.permutation(len(answers))
    order = order[np.argsort(answers[order], kind="stable")]
    folds = np.empty(len(answers), dtype=np.int64)
    folds[order] = np.arange(len(answers)) % FOLDS
    return folds


def one_hot(schema: Schema, codes: dict[str, Codes]) -> Any:
    """Return a sparse indicator (n, sum of sizes) of every column's code."""
    sizes = [schema.coded[name].alphabet.size for name in codes]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.stack(list(codes.values()), axis=1) + offsets[:-1]
    rows, columns = places.shape
    starts = np.arange(0, rows * columns + 1, columns)
    return csr_array((np.ones(rows * columns), places.ravel(), starts), shape=(rows, offsets[-1]))


def as_numbers(schema: Schema, codes: dict[str, Codes]) -> Array:
    """Return columns (n, m) of bins' centers, NaN where missing, and of categories' codes."""
    centers = [schema.coded[name].alphabet.centers for name in codes]
    columns = zip(centers, codes.values(), strict=True)
    return np.stack([values * 1.0 if at is None else at[values] for at, values in columns], axis=1)


def _categorical(schema: Schema, target: str) -> list[bool]:
    """Say which of the other columns trees take as categories."""
    alphabets = [column.alphabet for name, column in schema.coded.items() if name != target]
    return [each.centers is None and each.size <= _MAX_TREE_CATEGORIES for each in alphabets]


def sklearn(module: str) -> Any:
    """Import a module of scikit-learn, with the first prediction: comparisons do without."""
    return import_module(f"sklearn.{module}")


def infer_labels(release: Release, people: pa.Table) -> float:
    """Return the share of people whose label the attacker infers, of columns `image` and `label`.

    Reports are in the people's order; **not private**.
    """
    labels = release.schema.coded["label"].encode_codes("label", people)
    known = np.arange(len(labels)) % 2 == 0
    attack = _scores_of_noise if release.randomizer.candidates is None else _scores_of_candidates
    scores = attack(release, people, known)
    return float((scores[~known].argmax(axis=1) == labels[~known]).mean())


def directions(release: Release, report: CandidatesReport, rows: slice) -> tuple[Array, Array]:
    """Return the parts of reported directions for labels (n, C), and points with each (n, C, q)."""
    answers, codebook = report.read(release.table), report.mechanism.codebook
    y = codebook.rows(answers.seeds[rows], answers.indices[rows])
    labels, points, _ = report.features.parts(y)
    return labels, points


def _scores_of_candidates(release: Release, people: pa.Table, known: np.ndarray) -> Array:
    """Return, for each label (n, C), the mean features' product with the reported direction."""
    report = release.randomizer.candidates
    assert report is not None
    records = report.encode(people)
    means = _class_means(records.points[known], records.codes[known], report.features.labels)
    weight = report.features.label_weight
    scores = np.empty((len(known), len(means)))
    for start in range(0, len(known), _CHUNK):
        rows = slice(start, start + _CHUNK)
        labels, points = directions(release, report, rows)
        scores[rows] = math.sqrt(weight) * labels
        scores[rows] += math.sqrt(1 - weight) * np.einsum("ncq,cq->nc", points, means)
    return scores


def _scores_of_noise(release: Release, people: pa.Table, known: np.ndarray) -> Array:
    """Return, for each label (n, C), the log-likelihood of both reports, given its mean image."""
    schema, mechanisms = release.schema, release.randomizer.mechanisms
    clean = schema.images["image"].encode_points("image", people)
    codes = schema.coded["label"].encode_codes("label", people)
    count = schema.coded["label"].alphabet.size
    means = _class_means(clean[known], codes[known], count)
    images, labels = release.reports("image")[0], release.reports("label")[0]
    stddev = math.sqrt(mechanisms["image"].variance)
    far = ((images**2).sum(axis=1)[:, None] - 2 * images @ means.T + (means**2).sum(axis=1)) / 2
    ratio = np.log(cast("RandomizedResponse", mechanisms["label"]).likelihood_ratio)
    return np.asarray(ratio * (labels == np.arange(len(means))) - far / stddev**2)


def _class_means(points: Array, codes: np.ndarray, count: int) -> Array:
    """Return means (C, q) of points (n, q) of each label; 0 of one that does not occur."""
    own = codes == np.arange(count)[:, None]
    return np.asarray(own @ points / np.maximum(own.sum(axis=1, keepdims=True), 1))

r"""Scores of classifiers trained on synthetic and tested on real records; inference of reported labels.

Classifiers are trained to predict one column from the others, once on synthetic records and once on real
ones; both are tested on real records. The real records are split into folds: each fold tests the
synthetic-trained classifier, and a real-trained one that was trained on the other folds. Real records
should be of people whose reports the model did not use. Records with a missing target are left out.

**A category of a table** is predicted by two classifiers from the other columns: categories by their
codes, numbers by the centers of their bins. Logistic regression uses the effect of each single column,
gradient boosted trees also interactions. Their score is the area under the receiver operating
characteristic: the probability that a record of a class gets a higher score than one of another class,
where ties count half. With several classes, each is compared with the rest and weighted by its share, so
that a rare class cannot dominate. Uninformative scores get ½, and so does a class without synthetic
records, which is never predicted.

**A number** is predicted by ridge regression and gradient boosted trees, scored by $R^2 = 1 − \sum (y −
ŷ)^2 / \sum (y − \bar y)^2$: 1 if predictions are exact, 0 if they are no better than the mean.

**A label of images** is predicted by multinomial logistic regression on pixels, scored by its accuracy.

**Inference of labels from single reports** (`infer_labels`). An attacker knows the randomizer, and the
clean images and labels of half of the people, and so the mean image of each label. From one report of
each other person, the attacker infers that person's label: if reports are candidates, the label whose
mean features are nearest to the reported direction; if reports are noised images, the label that makes
the reported label and image most likely. Other attackers may infer more.

Training needs scikit-learn. Every result depends on real records: **not private**.

References:
    Hand, Till, *A simple generalisation of the area under the ROC curve* (2001).
    Fawcett, *An introduction to ROC analysis* (2006), for the weights.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from privot.core.errors import PrivotError
from privot.evaluation.distances import require_records, unit_pixels
from privot.mechanisms import RandomizedResponse
from privot.randomizer import Release
from privot.randomizer.reports.candidates import CandidatesReport
from privot.schema import Schema
from privot.schema.columns.alphabet import Codes
from privot.schema.domains import Array

FOLDS, _IMAGE_FOLDS = 5, 2  # of the real records of a table, of images
_MAX_TREE_CATEGORIES = 255  # trees treat columns with more as numbers, in the order of their codes
_MAX_TRAINED, _ITERATIONS = 10_000, 100  # of image classifiers: training images, iterations
_CHUNK = 4096  # reports of candidates that are decoded at once


@dataclass(frozen=True)
class ClassifierScore:
    """Scores of a classifier on real records, trained on synthetic and on real records."""

    classifier: str
    synthetic: float
    real: float


@dataclass(frozen=True)
class Prediction:
    """Scores of classifiers, or regressions, that predict one column, trained on either table."""

    target: str
    num_synthetic: int  # number of synthetic records, all for training
    num_real: int  # number of real records, for testing and, in five folds, for training
    scores: tuple[ClassifierScore, ...]
    measure: str = "AUC"  # "R²" if the target is a number


@dataclass(frozen=True)
class LabelScore:
    """Accuracy of logistic regression on real images, trained on synthetic and on real images."""

    target: str
    synthetic: float
    real: float
    num_synthetic: int
    num_real: int


class Examples(NamedTuple):
    """Records with a target that is not missing, for training or testing."""

    codes: dict[str, Codes]  # codes (n,) of each other column
    answers: Any  # codes or numbers (n,) of the target


class _Task(NamedTuple):
    """Classification or regression of the target, with its measure of quality."""

    learners: Mapping[str, Any]  # by name: a linear one, and then boosted trees
    predict: Callable[..., Array]  # (learner, inputs, answers, test inputs) → predictions for tests
    measure: Callable[[Array], float]  # score of the predictions for all real records
    name: str  # name of the measure


def predict_target(
    schema: Schema, synthetic: pa.Table, real: pa.Table, target: str, seed: int = 0
) -> Prediction:
    """Score linear and boosted predictors of a column, trained on either table; **not private**.

    Arguments:
        schema: Public description of a record; all its columns that have codes are used.
        synthetic: Records of a model.
        real: Real records, preferably of people whose reports the model did not use.
        target: Column of categories or booleans (scored by AUC), or of numbers or dates (by R²).
        seed: Seed of folds and trees.

    Raises:
        PrivotError: if scikit-learn is missing; if the target is no such column, or the only column; if
            there are fewer than 10 real records, or 2 synthetic ones with a number; or if all real
            answers are equal.
    """
    column = schema.columns.get(target)
    is_number = column is not None and column.is_number
    _require_target(schema, target, is_number)
    tables = _encode_both(schema, synthetic, real, target)
    truth, size = tables[1].answers, schema.coded[target].alphabet.size
    classes = np.zeros(len(truth), np.int64) if is_number else truth
    folds = _assign_folds(classes, np.random.default_rng(seed))

    def classify(classifier: Any, x: Any, answers: Codes, test_x: Any) -> Array:
        by_class, learned = np.zeros((test_x.shape[0], size)), np.unique(answers)
        if len(learned) > 1:
            by_class[:, learned] = classifier.fit(x, answers).predict_proba(test_x)
        return by_class

    def area(scores: Array) -> float:
        masks = (folds == fold for fold in range(FOLDS))
        return float(np.mean([area_under_curve(truth[mask], scores[mask]) for mask in masks]))

    def regress(regression: Any, x: Any, answers: Array, test_x: Any) -> Any:
        return regression.fit(x, answers).predict(test_x)

    def explained(values: Array) -> float:
        return float(1 - ((truth - values) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())

    linear, ensemble = sklearn("linear_model"), sklearn("ensemble")
    trees = {"categorical_features": _tree_categories(schema, target), "random_state": seed}
    if is_number:
        learners = {"ridge regression": linear.Ridge(alpha=1.0)}
        learners["gradient boosting"] = ensemble.HistGradientBoostingRegressor(**trees)
        task = _Task(learners, regress, explained, "R²")
    else:
        learners = {"logistic regression": linear.LogisticRegression(max_iter=300)}
        learners["gradient boosting"] = ensemble.HistGradientBoostingClassifier(**trees)
        task = _Task(learners, classify, area, "AUC")
    scores = _score_learners(schema, tables, folds, task)
    return Prediction(target, len(tables[0].answers), len(truth), scores, task.name)


def _encode_both(
    schema: Schema, synthetic: pa.Table, real: pa.Table, target: str
) -> tuple[Examples, Examples]:
    """Encode the records whose target is not missing; raise PrivotError if there are too few."""
    require_records(schema, synthetic, real)
    if len(schema.coded) < 2:
        raise PrivotError(
            f"target {target!r} is the only column: there is nothing to predict it from"
        )
    training, testing = (with_known_target(schema, target, table) for table in (synthetic, real))
    drawn, number = len(training.answers), len(testing.answers)
    values = len(np.unique(testing.answers))
    too_few = schema.coded[target].is_number and drawn < 2
    if number < 2 * FOLDS or values < 2 or too_few:
        raise PrivotError(
            f"target {target!r} has {values} values in {number} real records, {drawn} synthetic ones: "
            f"give at least two values, {2 * FOLDS} real records, and two synthetic ones"
        )
    return training, testing


def _score_learners(
    schema: Schema, tables: tuple[Examples, Examples], folds: Codes, task: _Task
) -> tuple[ClassifierScore, ...]:
    """Score each learner, trained on synthetic records and cross-validated on real ones."""
    (synthetic_codes, synthetic_answers), (real_codes, real_answers) = tables
    scores = []
    for (name, learner), inputs in zip(task.learners.items(), (one_hot, _as_numbers), strict=True):
        x, real_x = inputs(schema, synthetic_codes), inputs(schema, real_codes)
        by_synthetic = task.predict(learner, x, synthetic_answers, real_x)
        by_real = np.empty_like(by_synthetic)
        for fold in range(FOLDS):
            train, test = folds != fold, folds == fold
            by_real[test] = task.predict(learner, real_x[train], real_answers[train], real_x[test])
        scores.append(ClassifierScore(name, task.measure(by_synthetic), task.measure(by_real)))
    return tuple(scores)


def label_column(schema: Schema) -> str | None:
    """Return the only categorical column beside images; None if ambiguous or without scikit-learn."""
    labels = _categorical_columns(schema)
    return labels[0] if schema.images and len(labels) == 1 and find_spec("sklearn") else None


def predict_label(
    schema: Schema, synthetic: pa.Table, real: pa.Table, target: str, seed: int = 0
) -> LabelScore:
    """Return the accuracy of image classifiers trained on either table; **not private**.

    At most 10 000 synthetic images are used for training. The target is a column of categories.

    Raises:
        PrivotError: if scikit-learn is missing, the target has no categories, or there are too few real
            records.
    """
    _require_target(schema, target)
    if real.num_rows < 2 * _IMAGE_FOLDS:
        raise PrivotError(
            f"{real.num_rows} real records are too few: give at least {2 * _IMAGE_FOLDS}"
        )
    synthetic = synthetic.slice(0, _MAX_TRAINED)
    x, real_x = (
        np.concatenate([unit_pixels(schema, name, table) for name in schema.images], axis=1)
        for table in (synthetic, real)
    )
    labels, truth = (schema.coded[target].encode_codes(target, t) for t in (synthetic, real))
    folds = np.random.default_rng(seed).permutation(len(real_x)) % _IMAGE_FOLDS
    is_correct = np.zeros(len(real_x), bool)
    for fold in range(_IMAGE_FOLDS):
        test = folds == fold
        is_correct[test] = learn_labels(real_x[~test], truth[~test], real_x[test]) == truth[test]
    accuracy = float((learn_labels(x, labels, real_x) == truth).mean())
    return LabelScore(target, accuracy, float(is_correct.mean()), len(x), len(real_x))


def learn_labels(x: np.ndarray, labels: np.ndarray, test_x: np.ndarray) -> np.ndarray:
    """Predict labels (m,) of `test_x` (m, d) by logistic regression on x (n, d) and its labels (n,)."""
    if len(np.unique(labels)) < 2:
        return np.full(len(test_x), labels[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sklearn("exceptions").ConvergenceWarning)
        model = sklearn("linear_model").LogisticRegression(max_iter=_ITERATIONS).fit(x, labels)
    return np.asarray(model.predict(test_x))


def area_under_curve(truth: Codes, scores: Array) -> float:
    """Return the AUC of scores (n, K) for classes `truth` (n,) of 0 … K−1; ½ if there is one class."""
    counts = np.bincount(truth, minlength=scores.shape[1])
    present = np.flatnonzero((counts > 0) & (counts < len(truth)))
    roc_auc_score = sklearn("metrics").roc_auc_score
    areas = [roc_auc_score(truth == k, scores[:, k]) for k in present]
    return float(np.average(areas, weights=counts[present])) if areas else 0.5


def _categorical_columns(schema: Schema) -> list[str]:
    return [name for name, column in schema.coded.items() if column.alphabet.centers is None]


def require_sklearn() -> None:
    """Raise PrivotError if scikit-learn is not installed."""
    if find_spec("sklearn") is None:
        raise PrivotError(
            "training classifiers needs scikit-learn: pip install 'privot[evaluate]', or name no target"
        )


def _require_target(schema: Schema, target: str, may_be_number: bool = False) -> None:
    require_sklearn()
    names = _categorical_columns(schema)
    if target not in names and not may_be_number:
        known = target in schema.columns
        kind = f"is {schema.columns[target].kind}" if known else "is not in the schema"
        raise PrivotError(f"target {target!r} {kind}: name a categorical or boolean one of {names}")


def encode_target(
    schema: Schema, target: str, table: pa.Table
) -> tuple[dict[str, Codes], Codes, NDArray[np.bool_]]:
    """Return codes (n,) of each other column and of the target, and a mask (n,) of known targets."""
    codes = {name: column.encode_codes(name, table) for name, column in schema.coded.items()}
    answers, missing = codes.pop(target), schema.coded[target].alphabet.missing
    return codes, answers, answers != (-1 if missing is None else missing)


def with_known_target(schema: Schema, target: str, table: pa.Table) -> Examples:
    """Encode the records whose target is not missing."""
    codes, answers, known = encode_target(schema, target, table)
    column = schema.coded[target]
    if column.is_number:
        answers = column.accept(target, table)
    return Examples({name: values[known] for name, values in codes.items()}, answers[known])


def _assign_folds(answers: Codes, rng: np.random.Generator) -> Codes:
    """Assign a fold (n,) to each record, stratified by class."""
    order = rng.permutation(len(answers))
    order = order[np.argsort(answers[order], kind="stable")]
    folds = np.empty(len(answers), dtype=np.int64)
    folds[order] = np.arange(len(answers)) % FOLDS
    return folds


def one_hot(schema: Schema, codes: dict[str, Codes]) -> Any:
    """Return sparse indicators (n, sum of alphabets' sizes) of all columns' codes."""
    sizes = [schema.coded[name].alphabet.size for name in codes]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    ones = np.stack(list(codes.values()), axis=1) + offsets[:-1]  # columns of the ones in each row
    rows, columns = ones.shape
    starts = np.arange(0, rows * columns + 1, columns)
    return csr_array((np.ones(rows * columns), ones.ravel(), starts), shape=(rows, offsets[-1]))


def _as_numbers(schema: Schema, codes: dict[str, Codes]) -> Array:
    """Return columns (n, m): centers of bins (NaN where missing), and codes of categories."""
    columns = []
    for name, values in codes.items():
        centers = schema.coded[name].alphabet.centers
        columns.append(values * 1.0 if centers is None else centers[values])
    return np.stack(columns, axis=1)


def _tree_categories(schema: Schema, target: str) -> list[bool]:
    """Return whether trees treat each of the other columns as categories."""
    alphabets = [column.alphabet for name, column in schema.coded.items() if name != target]
    return [a.centers is None and a.size <= _MAX_TREE_CATEGORIES for a in alphabets]


def sklearn(module: str) -> Any:
    """Import a module of scikit-learn only when it is used: most comparisons do not need it."""
    return import_module(f"sklearn.{module}")


def infer_labels(release: Release, people: pa.Table) -> float:
    """Return the share of people whose label the attacker infers correctly; **not private**.

    Records have the columns `image` and `label`; reports are in the order of the records.
    """
    labels = release.schema.coded["label"].encode_codes("label", people)
    known = np.arange(len(labels)) % 2 == 0
    attack = _scores_by_noise if release.randomizer.candidates is None else _scores_by_candidates
    scores = attack(release, people, known)
    return float((scores[~known].argmax(axis=1) == labels[~known]).mean())


def directions(release: Release, report: CandidatesReport, rows: slice) -> tuple[Array, Array]:
    """Return coordinates of the directions in some reports: of labels (n, C), of points (n, C, q)."""
    answers, codebook = report.read(release.table), report.mechanism.codebook
    y = codebook.rows(answers.seeds[rows], answers.indices[rows])
    labels, points, _ = report.features.parts(y)
    return labels, points


def _scores_by_candidates(release: Release, people: pa.Table, known: np.ndarray) -> Array:
    """Return scores (n, C): products of each label's mean features with the reported direction.

    With w the label's weight, the features of a record are √w times the indicator of its label, and
    √(1 − w) times its point (`privot.mechanisms.candidates.features`).
    """
    report = release.randomizer.candidates
    assert report is not None
    records = report.encode(people)
    means = _class_means(records.points[known], records.codes[known], report.features.num_labels)
    weight = report.features.label_weight
    scores = np.empty((len(known), len(means)))
    for start in range(0, len(known), _CHUNK):
        rows = slice(start, start + _CHUNK)
        labels, points = directions(release, report, rows)
        scores[rows] = math.sqrt(weight) * labels
        scores[rows] += math.sqrt(1 - weight) * np.einsum("ncq,cq->nc", points, means)
    return scores


def _scores_by_noise(release: Release, people: pa.Table, known: np.ndarray) -> Array:
    """Return scores (n, C): log-likelihoods of the reports given each label and its mean image."""
    schema, mechanisms = release.schema, release.randomizer.mechanisms
    clean = schema.images["image"].encode_points("image", people)
    codes = schema.coded["label"].encode_codes("label", people)
    count = schema.coded["label"].alphabet.size
    means = _class_means(clean[known], codes[known], count)
    images, labels = release.reports("image")[0], release.reports("label")[0]
    stddev = math.sqrt(mechanisms["image"].variance)
    squares = (images**2).sum(axis=1)[:, None] - 2 * images @ means.T + (means**2).sum(axis=1)
    log_ratio = np.log(cast("RandomizedResponse", mechanisms["label"]).likelihood_ratio)
    return np.asarray(log_ratio * (labels == np.arange(len(means))) - squares / 2 / stddev**2)


def _class_means(points: Array, codes: np.ndarray, count: int) -> Array:
    """Return the mean (C, q) of the points (n, q) of each label; 0 for a label that does not occur."""
    has_label = codes == np.arange(count)[:, None]
    return np.asarray(has_label @ points / np.maximum(has_label.sum(axis=1, keepdims=True), 1))

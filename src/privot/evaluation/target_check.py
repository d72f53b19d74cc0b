r"""Check of a target by reports alone: how well synthetic-trained classifiers predict real people.

This module estimates, from reports alone, the **performance** (AUC or R²) on people of classifiers that
are trained on synthetic rows, and the share of the performance of real-trained classifiers that they
**retain**. (`prediction` tests such classifiers on real records.) A column of categories is predicted by
logistic regression, a number by ridge regression. Of several classes, each of the twelve most frequent
is compared with the rest. Predictions are linear in the codes of columns $c$: the **score** of a record
x is $s(x) = \sum_c w_c(x_c)$, up to a constant.

**Moments.** Let f(x) be a function of the target, 0 if it is missing, and $κ(x)$ be 1 if it is present,
else 0. The moments

$$ E[s f] = \sum_c E[w_c f] , \quad E[s κ] , \quad E[s^2] = \sum_{c,d} E[w_c w_d] , \quad E[s] , \quad
   E[f] , \quad E[f^2] , \quad E[κ] $$

are sums of means over single columns and pairs of columns, which reports estimate without a model
(`estimates` defines questions, atoms, cells and sources). A report's contributions to several pairs are
added before covariances are computed over people, so no independence is assumed. If a column is reported
in another alphabet than the schema's, a code contributes the model's mean over the values that it
covers. Pairs that no report covers contribute the model's mean.

**Performance by cross-fitting.** Reports are randomly divided into two halves. A model is fitted to
each half, with the settings of the given model, and a classifier is trained on rows sampled from it. The
other half's reports are independent of it and estimate the moments of its score. For a number these
determine $R^2$. For a class with share p, with ρ the correlation of its score and its indicator,

$$ d = \frac{ρ}{\sqrt{p(1−p)(1−ρ^2)}} , \qquad AUC = Φ(c d) , $$

with d the distance between the mean scores of the class and of the rest, in standard deviations. Two
values of c are used, and the interval covers both estimates: $1/\sqrt2$, which is exact if scores are
normal in the class and in the rest with equal variances, and $Φ^{−1}(AUC)/d$ of the half's model.

**Correction for halves.** A model of half of the reports is worse than one of all, and scores of people
are distributed neither normally nor as in such a model. Both effects are measured on people sampled from
the model (`rehearse`): models are fitted to the reports of all of them and of both halves. The
difference between the exact performance with all reports and that by moments with half of them is added
to the estimate, for Φ⁻¹ of the AUC or for R². The correction does not depend on the real reports and
adds little variance, which is estimated from the difference of the two halves. **Assumption**: the
difference is the same for real people as for people sampled from the model.

**Retained share.** In the rehearsal the model is the population. Let A be the performance, on its
people, of a classifier trained on its rows, A′ that of one trained on rows of the rehearsed model, $A_0$
that of guessing, and $g^2$ the ratio of true to rehearsed squared errors (`rehearse`). The loss of
performance is taken as proportional to the squared error, so the share is

$$ 1 − g^2 \frac{A − A′}{A − A_0} . $$

It does not hold for trees or networks, which may use dependence that the model lacks.

Privacy review: everything post-processes a release and a model of it, with random numbers.

References:
    Hand, Till, *A simple generalisation of the area under the ROC curve* (2001).
    Bamber, *The area above the ordinal dominance graph and the area below the receiver operating
    characteristic graph* (1975).
    Efron, Tibshirani, *An introduction to the bootstrap* (1993), for correcting a bias.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.evaluation import prediction
from privot.evaluation.estimates import (
    CodeReports,
    Columns,
    Estimate,
    Interval,
    Question,
    Rehearsed,
    Z,
    cells_of,
    estimate_from,
    sampler_of,
    source_weight,
    sum_by_code,
)
from privot.evaluation.number_checks import delta_method
from privot.evaluation.verdicts import CHANCE, MIN_ABOVE_CHANCE, RETAINED, Finding, grade_share
from privot.local import LocalModel
from privot.local.classes.class_fit import fit_again
from privot.local.classes.mixture import LatentClasses
from privot.local.releases import Releases
from privot.schema import Schema
from privot.schema.columns.alphabet import Codes
from privot.schema.domains import Array

# Rows of the moments (7, G): means of s f, s κ, s², s, f, f² and κ, in the symbols of the module.
SCORE_TARGET, SCORE_KNOWN, SCORE_SQUARE, SCORE, TARGET, TARGET_SQUARE, KNOWN = range(7)
_NUM_TRAINED, _NUM_TESTED = 20_000, 50_000  # sampled rows for training, and for testing
_MAX_CLASSES = 12  # of categories, that are compared with the rest
_MAX_CORRELATION = 0.95  # above, d is extrapolated linearly, which keeps its uncertainty visible
_MIN_DISTANCE = 0.1  # smallest |d| at which the model's AUC determines c


@dataclass(frozen=True, eq=False)
class Scores:
    """G scores s that are sums over columns, each with a function f of the target column."""

    column: int  # number of the target column
    weights: tuple[Array, ...]  # by column: weights (a, G) of atoms; for the target, values of f
    known: Array  # κ (a,) of the target's atoms: 0 for the missing value, else 1

    def terms(self, columns: Columns) -> Array:
        """Return the contributions of the atoms of one or two columns to the moments (7, a[, b], G)."""
        first, known = self.weights[columns[0]], self.known[:, None]
        if len(columns) == 1:
            out = np.zeros((7, *first.shape))
            if columns[0] == self.column:
                out[TARGET], out[TARGET_SQUARE], out[KNOWN] = first, first**2, known
            else:
                out[SCORE], out[SCORE_SQUARE] = first, first**2
            return out
        second = self.weights[columns[1]]
        product = first[:, None] * second  # (a, b, G)
        out = np.zeros((7, *product.shape))
        if self.column not in columns:
            out[SCORE_SQUARE] = 2 * product  # both w_c w_d and w_d w_c
            return out
        out[SCORE_TARGET] = product
        if columns[0] == self.column:
            out[SCORE_KNOWN] = known[:, None] * second
        else:
            out[SCORE_KNOWN] = known * first[:, None]
        return out


def model_moments(law: LatentClasses, scores: Scores) -> Array:
    """Return the moments (7, G) under a distribution of atoms."""
    means = [_mean_terms(law, scores, c) for c in _columns_and_pairs(len(scores.weights))]
    return np.asarray(np.sum(means, axis=0))


def report_moments(reports: CodeReports, law: LatentClasses, scores: Scores) -> Estimate:
    """Estimate the moments (7 G,) from reports, with their covariance (7 G, 7 G)."""
    size = 7 * scores.weights[0].shape[1]
    functions = [np.zeros((int(np.prod(part.shape)), size)) for part in reports.sources]
    mean, spread = np.zeros(size), np.zeros((size, size))
    for columns in _columns_and_pairs(len(scores.weights)):
        estimators = list(_source_estimators(reports, law, scores, columns))
        if not estimators:
            mean += _mean_terms(law, scores, columns).ravel()
        total = sum(estimator.weight for estimator in estimators)
        for source, weight, function in estimators:
            functions[source] += weight / total * function
    for reported, g in zip(reports.sources, functions, strict=True):
        if g.any():
            part = estimate_from(reported, g, full=True)
            mean, spread = mean + part.mean, spread + part.spread
    return Estimate(mean, spread, int(sum(source.counts.sum() for source in reports.sources)))


class _SourceEstimator(NamedTuple):
    """Function whose mean over one source's reports estimates contributions to the moments."""

    source: int  # number of the source
    weight: float  # in the average over sources
    function: Array  # (cells of the source, 7 G)


def _source_estimators(
    reports: CodeReports, law: LatentClasses, scores: Scores, columns: Columns
) -> Iterator[_SourceEstimator]:
    """Yield an estimator of the contributions of one or two columns for each source about them."""
    terms, shares = scores.terms(columns), law.marginal(columns)
    for numbers in reports.about(*columns):
        questions = [reports.questions[number] for number in numbers]
        num_cells = math.prod(question.alphabet.size for question in questions)
        same_order = reports.columns(numbers) == columns
        by_cell = _mean_by_cell(questions, terms, shares, same_order)
        for index, source in enumerate(reports.sources):
            if set(numbers) <= set(source.questions):
                function = by_cell[cells_of(source, numbers)]
                yield _SourceEstimator(index, source_weight(source, num_cells), function)


def _columns_and_pairs(number: int) -> list[Columns]:
    return [*combinations(range(number), 1), *combinations(range(number), 2)]


def _mean_terms(law: LatentClasses, scores: Scores, columns: Columns) -> Array:
    """Return the means (7, G) of the contributions of one or two columns to the moments."""
    shares, terms = law.marginal(columns), scores.terms(columns)
    axes = range(1, terms.ndim - 1), range(shares.ndim)
    return np.asarray(np.tensordot(terms, shares, axes))


def _mean_by_cell(
    questions: Sequence[Question], terms: Array, shares: Array, same_order: bool
) -> Array:
    """Return the means (cells, 7 G) of terms over the atoms in each cell of one or two questions.

    `same_order` is False if the first of two questions is about the second column.
    """
    if not same_order:
        terms, shares = np.swapaxes(terms, 1, 2), shares.T
    sums = terms * shares[..., None]
    for axis, question in enumerate(questions):
        sums = sum_by_code(question, sums, axis + 1)
        shares = sum_by_code(question, shares, axis)
    means = sums / np.maximum(shares, 1e-300)[..., None]
    return np.moveaxis(means, 0, -2).reshape(shares.size, -1)


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """Classifier or regression of one column, linear in the codes of the others."""

    model: LocalModel  # the model whose samples are the training rows
    target: str
    weights: Array  # (codes, G) weights of the other columns' codes, one column after the other
    classes: Codes  # (G,) code of the target for each score; empty for a number
    center: float = 0.0  # intercept of a number's score
    unit: float = 1.0  # unit of a number's score

    @classmethod
    def of(cls, model: LocalModel, target: str, seed: int) -> Self:
        """Train on rows drawn from a model."""
        schema, rows = model.schema, model.sample(_NUM_TRAINED, seed=seed)
        linear = prediction.sklearn("linear_model")
        codes, answers = prediction.with_known_target(schema, target, rows)
        inputs = prediction.one_hot(schema, codes)
        if schema.coded[target].is_number:
            ridge = linear.Ridge(alpha=1.0).fit(inputs, answers)
            unit = float(answers.std()) or 1.0
            weights = ridge.coef_[:, None] / unit
            return cls(model, target, weights, np.arange(0), float(ridge.intercept_), unit)
        classes, counts = np.unique(answers, return_counts=True)
        if len(classes) == 1:
            return cls(model, target, np.zeros((inputs.shape[1], 1)), classes)
        frequent = np.sort(np.argsort(-counts, kind="stable")[:_MAX_CLASSES])
        scored = classes[frequent[1:] if len(classes) == 2 else frequent]
        logistic = linear.LogisticRegression(max_iter=300)
        weights = [logistic.fit(inputs, answers == code).coef_[0] for code in scored]
        return cls(model, target, np.stack(weights, axis=1), scored)

    @property
    def is_number(self) -> bool:
        """True for a regression."""
        return not self.classes.size

    def scores(self) -> Scores:
        """Return the scores as weights of atoms; f is the class, or the number, that they predict."""
        schema, weights, start = self.model.schema, [], 0
        for name, place in zip(schema.coded, sampler_of(self.model).places, strict=True):
            size = schema.coded[name].alphabet.size
            if name != self.target:
                weights.append(self.weights[start : start + size][place.codes])
                start += size
                continue
            missing = schema.coded[name].alphabet.missing
            known = np.ones(len(place.codes)) if missing is None else 1.0 * (place.codes != missing)
            if place.cells is None or not self.is_number:
                values = 1.0 * (place.codes[:, None] == self.classes)
            else:
                middle = (place.cells.low + place.cells.high) / 2
                values = (np.nan_to_num(middle)[:, None] - self.center) / self.unit
            weights.append(values * known[:, None])
        return Scores(list(schema.coded).index(self.target), tuple(weights), known)

    def linear_scores(self, codes: dict[str, Codes]) -> Array:
        """Return scores (n, G) of the other columns' codes."""
        return np.asarray(prediction.one_hot(self.model.schema, codes) @ self.weights)

    def _scores_and_target(self, table: pa.Table) -> tuple[Array, Codes, NDArray[np.bool_]]:
        """Return scores (n, G), codes of the target (n,), and a mask (n,) where it is not missing."""
        codes, answers, known = prediction.encode_target(self.model.schema, self.target, table)
        return self.linear_scores(codes), answers, known

    def performance(self, table: pa.Table) -> tuple[Array, Array]:
        """Return the AUC (G,) and the share (G,) of each class among records; of a number, R² and 1."""
        codes, answers = prediction.with_known_target(self.model.schema, self.target, table)
        scores = self.linear_scores(codes)
        if self.is_number:
            numbers = (answers - self.center) / self.unit
            unexplained = ((numbers - scores[:, 0]) ** 2).mean()
            return np.array([1 - unexplained / max(float(numbers.var()), 1e-12)]), np.ones(1)
        areas = [
            prediction.area_under_curve(1 * (answers == code), np.stack([-score, score], axis=1))
            for code, score in zip(self.classes, scores.T, strict=True)
        ]
        return np.array(areas), np.array([(answers == code).mean() for code in self.classes])

    def moments(self, table: pa.Table) -> Array:
        """Return the moments (7, G) of a classifier's scores and classes among records."""
        s, answers, is_known = self._scores_and_target(table)
        f = 1.0 * (answers[:, None] == self.classes)
        known = np.broadcast_to(1.0 * is_known[:, None], s.shape)
        terms = s * f, s * known, s**2, s, f, f, known  # f² is f, as f is an indicator
        return np.array([term.mean(axis=0) for term in terms])

    def square_where_known(self, table: pa.Table) -> Array:
        """Return the share E[s² κ] / E[s²] (G,) of records whose target is not missing.

        No sum over pairs of columns gives E[s² κ], so the reports' E[s²] is multiplied by this share.
        """
        scores, _, is_known = self._scores_and_target(table)
        square = scores**2
        return np.asarray(square[is_known].sum(axis=0) / np.maximum(square.sum(axis=0), 1e-12))


def mean_performance(areas: Array, shares: Array) -> float:
    """Return the mean AUC over classes, weighted by their shares, or R²."""
    return float(areas @ shares / max(shares.sum(), 1e-12))


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Models of two halves of reports, each with the other half's reports."""

    models: tuple[LocalModel, ...]
    others: tuple[CodeReports, ...]  # for each model, the reports to which it was not fitted

    @classmethod
    def of(cls, model: LocalModel, releases: Releases, seed: int) -> Self:
        """Divide reports into random halves, and fit each with the settings chosen for `model`."""
        rng = np.random.default_rng(seed)
        halves = zip(*(counts.halves(rng) for counts in releases.counts), strict=True)
        first, second = map(Releases, halves)
        models = fit_again(model, first, seed), fit_again(model, second, seed)
        return cls(models, tuple(map(CodeReports.of, (second, first), models)))


def cross_fitted_performance(
    real: CrossFit, rehearsed: CrossFit, whole: LocalModel, people: pa.Table, target: str, seed: int
) -> Interval:
    """Estimate the performance on people of a classifier, or regression, of synthetic records.

    Arguments:
        real: Models of halves of the real reports.
        rehearsed: Models of halves of simulated reports, by people sampled from the model of all real
            reports.
        whole: Model of all simulated reports.
        people: Records sampled from the model of all real reports.
        target: Column to predict, of codes or numbers.
        seed: Seed of rows and fits.
    """

    def trained(model: LocalModel) -> LinearPredictor:
        return LinearPredictor.of(model, target, seed)

    pairs = zip(real.models, real.others, strict=True)
    estimates = [_performance_by_reports(trained(model), other, seed) for model, other in pairs]
    means, variances = np.mean(estimates, axis=0).T  # one of each shape (`_shapes`)
    of_whole = trained(whole)
    halves = [_performance_by_moments(trained(model), people, seed) for model in rehearsed.models]
    corrections = _exact_performance(of_whole, people) - np.array(halves)  # (halves, shapes)
    # Variance by reports: half of that of one half's estimate, since the halves are independent.
    # Variance by training, with V that of a half's model: V/2 for the mean of two halves and V/2 for
    # the model of all reports, which has twice as many; and the same again in the rehearsal.
    error = Z * np.sqrt(variances / 2 + 2 * corrections.var(axis=0, ddof=1))
    means = means + corrections.mean(axis=0)
    ends = np.array([means[0], (means - error).min(), (means + error).max()])
    values = np.clip(ends, -1.0, 1.0) if of_whole.is_number else scipy.special.ndtr(ends)
    return Interval(*map(float, values))


def _performance_by_moments(learned: LinearPredictor, people: pa.Table, seed: int) -> list[float]:
    """Return R², or Φ⁻¹ of the AUC, by the exact moments among people, for each shape."""
    if learned.is_number:
        return [_exact_performance(learned, people)]
    exact = learned.moments(people).ravel()
    return [shape.of_moments(exact) for shape in _shapes(learned, seed)]


def _exact_performance(learned: LinearPredictor, people: pa.Table) -> float:
    """Return R², or Φ⁻¹ of the AUC, on records."""
    value = mean_performance(*learned.performance(people))
    if learned.is_number:
        return value
    return float(scipy.special.ndtri(np.clip(value, 1e-6, 1 - 1e-6)))


def _performance_by_reports(
    learned: LinearPredictor, reports: CodeReports, seed: int
) -> list[tuple[float, float]]:
    """Estimate R², or Φ⁻¹ of the AUC, with its variance, for each shape."""
    moments = report_moments(reports, sampler_of(learned.model).atoms, learned.scores())
    estimates = []
    for shape in _shapes(learned, seed):
        value, variance = delta_method(shape.of_moments, moments.mean, moments.spread)
        estimates.append((value + shape.correction, variance))
    return estimates


class _Shape(NamedTuple):
    """Performance as a function of moments, for one shape of the distribution of scores."""

    of_moments: Callable[[Array], float]  # R², or Φ⁻¹ of the AUC, of moments (7 G,)
    correction: float  # added to the result of `of_moments`


def _shapes(learned: LinearPredictor, seed: int) -> list[_Shape]:
    """Return performance as a function of moments, for scores as in the model and for normal ones.

    For a number there is one shape, with a correction measured on the model's rows: moments use the
    middle of an atom for all numbers within it, which changes R².
    """
    rows = learned.model.sample(_NUM_TESTED, seed=seed + 2)
    exact, known_part = learned.performance(rows)[0], learned.square_where_known(rows)
    moments = model_moments(sampler_of(learned.model).atoms, learned.scores())
    if learned.is_number:
        explained = partial(_explained, known_part)
        return [_Shape(explained, float(exact[0]) - explained(moments.ravel()))]
    d, c_normal = _separation(moments, known_part), np.full(len(exact), 0.5**0.5)
    is_clear = abs(d) > _MIN_DISTANCE  # otherwise c = Φ⁻¹(AUC)/d is not determined
    quantiles = scipy.special.ndtri(np.clip(exact, 1e-6, 1 - 1e-6))
    c_model = np.where(is_clear, quantiles / np.where(is_clear, d, 1.0), c_normal)
    return [_Shape(partial(_normal_performance, known_part, c), 0.0) for c in (c_model, c_normal)]


def _explained(known_part: Array, moments: Array) -> float:
    """Return R² by the moments (7,) of a number."""
    known = max(moments[KNOWN], 1e-6)
    error = (
        moments[TARGET_SQUARE] - 2 * moments[SCORE_TARGET] + known_part[0] * moments[SCORE_SQUARE]
    )
    variance = moments[TARGET_SQUARE] / known - (moments[TARGET] / known) ** 2
    return float(1 - error / known / max(variance, 1e-9))


def _normal_performance(known_part: Array, c: Array, moments: Array) -> float:
    """Return Φ⁻¹ of the AUC by the moments; for several classes, of their weighted mean AUC."""
    table = moments.reshape(7, len(c))
    quantiles = c * _separation(table, known_part)
    if len(quantiles) == 1:
        return float(quantiles[0])
    areas, shares = scipy.special.ndtr(quantiles), np.clip(table[TARGET], 0.0, 1.0)
    return float(
        scipy.special.ndtri(np.clip(mean_performance(areas, shares + 1e-9), 1e-9, 1 - 1e-9))
    )


def _separation(moments: Array, known_part: Array) -> Array:
    """Return d (G,): the distance of a class's mean score from the rest's, in standard deviations."""
    known = np.clip(moments[KNOWN], 1e-6, None)
    share = np.clip(moments[TARGET] / known, 0.005, 0.995)
    mean = moments[SCORE_KNOWN] / known
    covariance = moments[SCORE_TARGET] / known - mean * share
    variance = moments[SCORE_SQUARE] * known_part / known - mean**2
    correlation = covariance / np.sqrt(np.clip(variance, 1e-9, None) * share * (1 - share))
    inside = np.clip(correlation, -_MAX_CORRELATION, _MAX_CORRELATION)
    # ρ / √(1 − ρ²) at the clipped ρ, plus its slope (1 − ρ²)^(−3/2) times the excess.
    root = np.sqrt(1 - inside**2)
    out: Array = (inside / root + (correlation - inside) / root**3) / np.sqrt(share * (1 - share))
    return out


@dataclass(frozen=True)
class TargetCheck:
    """Performance of a synthetic-trained classifier that predicts one column, by reports alone.

    Arguments:
        target: The predicted column.
        classifier: Name of the method.
        measure: Measure of performance: `"AUC"`, or `"R²"` for a number.
        reports: Performance on people, estimated from reports; None if no report covers the target
            together with another column.
        retained: Share, from 0 to 1, of a real-trained classifier's performance above guessing that is
            retained; None if the target is independent of all other columns in the model.
    """

    target: str
    classifier: str
    measure: str
    reports: Interval | None
    retained: float | None

    @property
    def finding(self) -> Finding:
        """Finding in words, graded as with real records."""
        topic = f"predicting {self.target}"
        if self.reports is None:
            words = f"no report covers {self.target} together with another column"
            return Finding(topic, "unknown", words)
        words = (
            f"{self.classifier} learned from synthetic records has {self.measure} "
            f"{self.reports.estimate:.2f} on people ({self.reports.low:.2f} to {self.reports.high:.2f})"
        )
        if self.retained is None:
            words += ": it is independent of all other columns in the model"
            return Finding(topic, "unknown", words)
        words += f", and retains {self.retained:.0%} of what real records would teach, by rehearsal"
        if self.reports.low - CHANCE[self.measure] < MIN_ABOVE_CHANCE:
            words += "; reports are too few to distinguish it from a guess"
            return Finding(topic, "unknown", words)
        return Finding(topic, grade_share(self.retained, RETAINED), words)


def require_target(schema: Schema, target: str) -> None:
    """Raise PrivotError if the target is no column of codes or numbers, or the only one.

    It is also raised if scikit-learn is not installed.
    """
    prediction.require_sklearn()
    known = [name for name in schema.coded if name not in schema.vectors]
    if target not in known or len(schema.coded) < 2:
        raise PrivotError(
            f"target {target!r} is none of {known}, or alone: name one that others may predict"
        )


def check_target(
    model: LocalModel,
    releases: Releases,
    target: str,
    rehearsed: Rehearsed,
    growth: float,
    *,
    seed: int,
) -> TargetCheck:
    """Check how well a classifier that is trained on the model's rows predicts a column.

    Arguments:
        model: Model of a table.
        releases: Reports of the model's fit, or others of the same randomizer.
        target: Column to predict.
        rehearsed: Reports of people sampled from the model, and the model fitted to them.
        growth: Ratio g of true to rehearsed errors of pairs.
        seed: Seed of halves, rows and fits.
    """
    is_number = model.schema.coded[target].is_number
    name, measure = ("ridge regression", "R²") if is_number else ("logistic regression", "AUC")
    people = model.sample(_NUM_TESTED, seed=seed + 1)
    by_model, by_rehearsed = (
        mean_performance(*LinearPredictor.of(trained_on, target, seed).performance(people))
        for trained_on in (model, rehearsed.model)
    )
    above_chance, retained = by_model - CHANCE[measure], None
    if above_chance >= MIN_ABOVE_CHANCE:
        lost = growth**2 * max(by_model - by_rehearsed, 0.0) / above_chance
        retained = float(np.clip(1 - lost, 0.0, 1.0))
    column, reports = list(model.schema.coded).index(target), CodeReports.of(releases)
    if not any(len(columns) == 2 and column in columns for columns in reports.by_columns):
        return TargetCheck(target, name, measure, None, retained)
    halves, whole = CrossFit.of(model, releases, seed), rehearsed.model
    rehearsed_halves = CrossFit.of(whole, rehearsed.releases, seed)
    interval = cross_fitted_performance(halves, rehearsed_halves, whole, people, target, seed=seed)
    return TargetCheck(target, name, measure, interval, retained)

r"""Check of a target by reports alone: how well classifiers of synthetic records predict it for people.

Against real records `prediction` scores classifiers that learned from synthetic rows. With reports alone
two quantities take its place: the **score on people** and the **retained** share of what real records
would teach. Classifiers are logistic regression of a column of categories, ridge regression of a number,
as `prediction` trains them; of several classes, each against the rest, and of more than twelve classes
the most frequent twelve. They are linear in the codes of columns $c$, so they score a record x by
$s(x) = \sum_c w_c(x_c)$.

**Moments.** With f(x) a function of the target, 0 where that is missing, and $κ(x)$ 1 where it is
present, all of

$$ E[s f] = \sum_c E[w_c f] , \quad E[s κ] , \quad E[s^2] = \sum_{c,d} E[w_c w_d] , \quad E[s] , \quad
   E[f] , \quad E[f^2] , \quad E[κ] $$

are sums of means over single columns and pairs of them, which reports estimate without a model
(`estimates`). A report may answer several of these pairs; each person's sum is one number, so that the
covariance of all of them together is that of people's sums, and nothing is taken as independent. Of
columns reported in alphabets that are not the schema's, a code stands for the model's mean over what it
covers. Pairs that no report covers have the model's mean.

**Score on people, by cross-fitting.** Reports are dealt into two halves by coins; a model is learned
from each, by the settings chosen before, and a classifier from rows that it draws. The other half's
reports, which it has not seen, estimate the moments of its score. For a number they give all of $R^2$.
For a class with share p, with ρ the correlation of its score and its indicator,

$$ d = \frac{ρ}{\sqrt{p(1−p)(1−ρ^2)}} , \qquad AUC = Φ(c d) , $$

where c is $1/\sqrt2$ if scores are normal in the class and the rest, with one variance, and that of the
half's model else, whose own d and AUC are known. Both are computed, and the interval covers both.

**Correction for halves.** Half of the reports teach less than all, and scores of people are distributed
neither normally nor as in a model learned from so few. Both effects are known for people drawn from the
model: they report (`rehearsal`), all of them and both halves are learned from, and the difference of
what the whole scores, truly, and what the moments of a half's scores among these people come to is
added, here of Φ⁻¹ of the AUC, or of R². Reports are no part of it, so that it adds little variance; as
much is added as the two halves differ by. **Assumed** is that this difference is the same for real
people as for the model's.

**Retained share.** In the rehearsal the model stands for people: let A be the score, on its people, of a
classifier learned from them, A′ of one learned from the model of their reports, $A_0$ a guess's score,
and $g^2$ how much larger squared errors are than rehearsed (`rehearsal`). Retained is

$$ 1 − g^2 \frac{A − A′}{A − A_0} . $$

It does not cover what trees, or networks, would do with dependence that the model lacks; `evaluate`
does, if real records may be read.

Needs scikit-learn.

Privacy review: computed from a release, a model of it and coins: post-processing.

References:
    Hand, Till, *A simple generalisation of the area under the ROC curve* (2001).
    Bamber, *The area above the ordinal dominance graph and the area below the receiver operating
    characteristic graph* (1975).
    Efron, Tibshirani, *An introduction to the bootstrap* (1993), for correcting a bias.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Self

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.evaluation.distances import Codes
from privot.evaluation.estimates import (
    CodeReports,
    Estimate,
    Interval,
    Question,
    Z,
    cells_of,
    delta_method,
    moments,
    precision,
)
from privot.evaluation.prediction import (
    area_under_curve,
    one_hot,
    require_sklearn,
    sklearn,
    with_known_target,
)
from privot.evaluation.rehearsal import Rehearsed, sampler_of
from privot.evaluation.verdicts import CHANCE, MIN_ABOVE_CHANCE, RETAINED, Finding, grade_share
from privot.local import LocalModel
from privot.local.classes.class_fit import fit_again
from privot.local.classes.mixture import LatentClasses
from privot.local.releases import Releases
from privot.randomizer import Release
from privot.randomizer.reports.rows import ReportTable
from privot.schema import Schema
from privot.schema.domains import Array

SCORE_TARGET, SCORE_KNOWN, SCORE_SQUARE, SCORE, TARGET, TARGET_SQUARE, KNOWN = range(7)
Columns = tuple[int, ...]
_NUM_TRAINED, _NUM_TESTED = 20_000, 50_000
_MAX_CLASSES = 12
_MAX_CORRELATION = 0.95  # beyond it d goes on as a line: a bound would hide what is not known
_MIN_DISTANCE = 0.1  # of a d at which the model's AUC determines c


@dataclass(frozen=True, eq=False)
class Scores:
    """G additive scores, each with a function of one column, the target.

    Arguments:
        column: Number of the target.
        weights: By column, weights of its atoms (a, G); of the target, the functions f.
        known: 1 where the target is not missing (a,).
    """

    column: int
    weights: tuple[Array, ...]
    known: Array

    def terms(self, columns: Columns) -> Array:
        """Return what the atoms of one or two columns add to each of the moments (7, a[, b], G)."""
        first = self.weights[columns[0]]
        if len(columns) == 1:
            out = np.zeros((7, *first.shape))
            if columns[0] == self.column:
                known = np.broadcast_to(self.known[:, None], first.shape)
                out[TARGET], out[TARGET_SQUARE], out[KNOWN] = first, first**2, known
            else:
                out[SCORE], out[SCORE_SQUARE] = first, first**2
            return out
        second = self.weights[columns[1]]
        out = np.zeros((7, len(first), *second.shape))
        product = first[:, None] * second
        if self.column in columns:
            known = (self.known[:, None, None] if columns[0] == self.column else
                     self.known[:, None])  # fmt: skip
            other = second if columns[0] == self.column else first[:, None]
            out[SCORE_TARGET], out[SCORE_KNOWN] = product, known * other
        else:
            out[SCORE_SQUARE] = 2 * product
        return out


def model_moments(law: LatentClasses, scores: Scores) -> Array:
    """Return the moments (7, G) under a distribution of atoms."""
    every = [
        _mean_terms(law, scores, columns) for columns in _columns_and_pairs(len(scores.weights))
    ]
    return np.asarray(np.sum(every, axis=0))


def report_moments(reports: CodeReports, law: LatentClasses, scores: Scores) -> Estimate:
    """Estimate the moments (7 G,) from reports, with their covariance and the number of people."""
    size = 7 * scores.weights[0].shape[1]
    functions = [np.zeros((int(np.prod(source.shape)), size)) for source in reports.sources]
    mean, spread = np.zeros(size), np.zeros((size, size))
    for columns in _columns_and_pairs(len(scores.weights)):
        if not reports.about(*columns):
            mean += _mean_terms(law, scores, columns).ravel()
            continue
        terms, shares = scores.terms(columns), law.marginal(columns)
        weights = {
            (questions, number): precision(
                source, math.prod(reports.questions[q].size for q in questions)
            )
            for questions in reports.about(*columns)
            for number, source in enumerate(reports.sources)
            if set(questions) <= set(source.questions)
        }
        total = sum(weights.values())
        for questions in reports.about(*columns):
            ordered = reports.columns(questions) == columns
            by_code = _by_code([reports.questions[q] for q in questions], terms, shares, ordered)
            for number, source in enumerate(reports.sources):
                if weight := weights.get((questions, number)):
                    places = cells_of(source, questions)
                    functions[number] += weight / total * by_code[places]
    for source, g in zip(reports.sources, functions, strict=True):
        if g.any():
            part = moments(source, g, full=True)
            mean, spread = mean + part.mean, spread + part.spread
    return Estimate(mean, spread, int(sum(source.counts.sum() for source in reports.sources)))


def _columns_and_pairs(number: int) -> list[Columns]:
    return [*combinations(range(number), 1), *combinations(range(number), 2)]


def _mean_terms(law: LatentClasses, scores: Scores, columns: Columns) -> Array:
    shares, terms = law.marginal(columns), scores.terms(columns)
    axes = range(1, terms.ndim - 1), range(shares.ndim)
    return np.asarray(np.tensordot(terms, shares, axes))


def _by_code(questions: Sequence[Question], terms: Array, shares: Array, ordered: bool) -> Array:
    """Return means (cells, 7 G) of terms over what the codes of one or two questions cover."""
    if not ordered:
        terms, shares = np.swapaxes(terms, 1, 2), shares.T
    total = terms * shares[..., None]
    for axis, each in enumerate(questions):
        covers = (np.arange(each.size)[:, None] == each.codes) * 1.0
        total = np.moveaxis(np.tensordot(covers, total, (1, axis + 1)), 0, axis + 1)
        shares = np.moveaxis(np.tensordot(covers, shares, (1, axis)), 0, axis)
    means = total / np.maximum(shares, 1e-300)[..., None]
    return np.moveaxis(means, 0, -2).reshape(shares.size, -1)


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """A classifier or regression of one column, linear in the codes of the others."""

    model: LocalModel  # whose rows it learned from
    target: str
    weights: Array  # (codes, G) of the other columns' codes, one column after the other
    classes: Codes  # (G,) codes of the target with these scores; empty of a number
    center: float = 0.0  # intercept of a number's score
    unit: float = 1.0  # unit of a number's score

    @classmethod
    def of(cls, model: LocalModel, target: str, seed: int) -> Self:
        """Train on rows drawn from a model."""
        schema, rows = model.schema, model.sample(_NUM_TRAINED, seed=seed)
        linear = sklearn("linear_model")
        codes, answers = with_known_target(schema, target, rows)
        inputs = one_hot(schema, codes)
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
        """Return its scores as weights of atoms, with the function of the target that they predict."""
        schema, found, start = self.model.schema, [], 0
        for name, place in zip(schema.coded, sampler_of(self.model).places, strict=True):
            size = schema.coded[name].alphabet.size
            if name != self.target:
                found.append(self.weights[start : start + size][place.codes])
                start += size
                continue
            missing = schema.coded[name].alphabet.missing
            known = np.ones(len(place.codes)) if missing is None else 1.0 * (place.codes != missing)
            if place.cells is None or not self.is_number:
                values = 1.0 * (place.codes[:, None] == self.classes)
            else:
                middle = (place.cells.low + place.cells.high) / 2
                values = (np.nan_to_num(middle)[:, None] - self.center) / self.unit
            found.append(values * known[:, None])
        return Scores(list(schema.coded).index(self.target), tuple(found), known)

    def points(self, codes: dict[str, Codes]) -> Array:
        """Return scores (n, G) of the other columns' codes."""
        return np.asarray(one_hot(self.model.schema, codes) @ self.weights)

    def _encoded(self, table: pa.Table) -> tuple[Array, Codes, NDArray[np.bool_]]:
        """Return scores (n, G), codes of the target (n,), and where it is not missing (n,)."""
        coded = self.model.schema.coded
        codes = {name: column.encode_codes(name, table) for name, column in coded.items()}
        missing, own = coded[self.target].alphabet.missing, codes.pop(self.target)
        return self.points(codes), own, own >= 0 if missing is None else own != missing

    def on(self, table: pa.Table) -> tuple[Array, Array]:
        """Return areas under the curve on records (G,), or R² (1,), and the classes' shares."""
        codes, own = with_known_target(self.model.schema, self.target, table)
        points = self.points(codes)
        if self.is_number:
            numbers = (own - self.center) / self.unit
            rest = ((numbers - points[:, 0]) ** 2).mean()
            return np.array([1 - rest / max(float(numbers.var()), 1e-12)]), np.ones(1)
        areas = [
            area_under_curve(1 * (own == code), np.stack([-each, each], axis=1))
            for code, each in zip(self.classes, points.T, strict=True)
        ]
        return np.array(areas), np.array([(own == code).mean() for code in self.classes])

    def moments(self, table: pa.Table) -> Array:
        """Return moments of scores and classes among records (7, G)."""
        points, own, there = self._encoded(table)
        is_class = 1.0 * (own[:, None] == self.classes)
        known = np.broadcast_to(1.0 * there[:, None], points.shape)
        each = points * is_class, points * known, points**2, points, is_class, is_class, known
        return np.array([one.mean(axis=0) for one in each])

    def square_where_known(self, table: pa.Table) -> Array:
        """Return the part (G,) of the scores' squares in records whose target is not missing."""
        points, _, there = self._encoded(table)
        square = points**2
        return np.asarray(square[there].sum(axis=0) / np.maximum(square.sum(axis=0), 1e-12))


def score(areas: Array, shares: Array) -> float:
    """Return the mean over classes, each weighted by its share."""
    return float(areas @ shares / max(shares.sum(), 1e-12))


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Models of either half of some reports, with the other half's reports."""

    models: tuple[LocalModel, ...]
    others: tuple[CodeReports, ...]

    @classmethod
    def of(cls, model: LocalModel, releases: Releases, seed: int) -> Self:
        """Deal reports into halves by coins, and fit each by the settings chosen for `model`."""
        rng = np.random.default_rng(seed)
        dealt: tuple[list[Release], list[Release]] = ([], [])
        for part in releases.parts:
            side = rng.random(len(part)) < 0.5
            for half, chosen in zip(dealt, (~side, side), strict=True):
                rows = ReportTable.of(part.table.filter(pa.array(chosen)))
                half.append(Release(rows, part.randomizer))
        first, second = (Releases(tuple(half)) for half in dealt)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit of all reports has said it
            models = fit_again(model, first, seed), fit_again(model, second, seed)
        return cls(models, (CodeReports.of(second), CodeReports.of(first)))


def cross_fitted_score(
    own: CrossFit,
    rehearsed: CrossFit,
    whole: LocalModel,
    people: pa.Table,
    target: str,
    *,
    seed: int,
) -> Interval:
    """Estimate the score on people of a classifier, or regression, trained on synthetic records.

    Arguments:
        own: Halves of people's reports.
        rehearsed: Halves of reports by people drawn from the model of all reports.
        whole: The model of all of these latter reports.
        people: Records drawn from the model of all reports.
        target: The column to predict, of codes or numbers.
        seed: Seed of rows and fits.
    """

    def learned(model: LocalModel) -> LinearPredictor:
        return LinearPredictor.of(model, target, seed)

    pairs = zip(own.models, own.others, strict=True)
    found = [_score_by_reports(learned(model), other, seed) for model, other in pairs]
    means, variances = np.mean(found, axis=0).T
    best = learned(whole)
    halves = [_scores_by_moments(learned(model), people, seed) for model in rehearsed.models]
    short = _score_on(best, people) - np.array(halves)  # (halves, shapes)
    # Variance of the two halves' mean, of the whole here, and as much of the model and its halves.
    error = Z * np.sqrt(variances / 2 + 2 * short.var(axis=0, ddof=1))
    means = means + short.mean(axis=0)
    ends = np.array([means[0], (means - error).min(), (means + error).max()])
    scores = np.clip(ends, -1.0, 1.0) if best.is_number else scipy.special.ndtr(ends)
    return Interval(*map(float, scores))


def _scores_by_moments(learned: LinearPredictor, people: pa.Table, seed: int) -> list[float]:
    """Return the estimates in the limit of very many reports of these people: one a shape."""
    if learned.is_number:
        return [_score_on(learned, people)]
    own = learned.moments(people).ravel()
    return [by_moments(own) for by_moments, _ in _shapes(learned, seed)]


def _score_on(learned: LinearPredictor, people: pa.Table) -> float:
    """Return R², or Φ⁻¹ of the AUC, on records."""
    made = score(*learned.on(people))
    return made if learned.is_number else float(scipy.special.ndtri(np.clip(made, 1e-6, 1 - 1e-6)))


def _score_by_reports(
    learned: LinearPredictor, reports: CodeReports, seed: int
) -> list[tuple[float, float]]:
    """Estimate R², or Φ⁻¹ of the AUC, and its variance: one pair a shape of the scores."""
    found = report_moments(reports, sampler_of(learned.model).atoms, learned.scores())
    pairs = []
    for by_moments, more in _shapes(learned, seed):
        value, variance = delta_method(by_moments, found.mean, found.spread)
        pairs.append((value + more, variance))
    return pairs


def _shapes(learned: LinearPredictor, seed: int) -> list[tuple[Callable[[Array], float], float]]:
    """Return the score as functions of moments: by the model's shape of scores, and by a normal one.

    A number has one such function, with what to add to it: within atoms numbers are not in their
    middle, and the model's rows say by how much that changes R².
    """
    drawn = learned.model.sample(_NUM_TESTED, seed=seed + 2)
    made, part = learned.on(drawn)[0], learned.square_where_known(drawn)
    own = model_moments(sampler_of(learned.model).atoms, learned.scores())
    if learned.is_number:
        explained = partial(_explained, part)
        return [(explained, float(made[0]) - explained(own))]
    apart, normal = _separation(own, part), np.full(len(made), 0.5**0.5)
    clear = abs(apart) > _MIN_DISTANCE
    as_model = scipy.special.ndtri(np.clip(made, 1e-6, 1 - 1e-6)) / np.where(clear, apart, 1.0)
    shapes = np.where(clear, as_model, normal), normal
    return [(partial(_normal_score, part, c), 0.0) for c in shapes]


def _explained(part: Array, moments: Array) -> float:
    """Return R² by the moments of a number."""
    m = moments.reshape(7, -1)[:, 0]
    known = max(m[KNOWN], 1e-6)
    rest = (m[TARGET_SQUARE] - 2 * m[SCORE_TARGET] + part[0] * m[SCORE_SQUARE]) / known
    spread = m[TARGET_SQUARE] / known - (m[TARGET] / known) ** 2
    return float(1 - rest / max(spread, 1e-9))


def _normal_score(part: Array, steep: Array, moments: Array) -> float:
    """Return Φ⁻¹ of the AUC by the moments, of several classes by their shares."""
    table = moments.reshape(7, len(steep))
    normal = steep * _separation(table, part)
    if len(normal) == 1:
        return float(normal[0])
    areas, shares = scipy.special.ndtr(normal), np.clip(table[TARGET], 0.0, 1.0)
    return float(scipy.special.ndtri(np.clip(score(areas, shares + 1e-9), 1e-9, 1 - 1e-9)))


def _separation(moments: Array, part: Array) -> Array:
    """Return d: how far each class's mean score is from the rest's, in standard deviations."""
    known = np.clip(moments[KNOWN], 1e-6, None)
    share = np.clip(moments[TARGET] / known, 0.005, 0.995)
    mean = moments[SCORE_KNOWN] / known
    common = moments[SCORE_TARGET] / known - mean * share
    spread = moments[SCORE_SQUARE] * part / known - mean**2
    scale = np.sqrt(np.clip(spread, 1e-9, None) * share * (1 - share))
    correlation = common / scale
    inside = np.clip(correlation, -_MAX_CORRELATION, _MAX_CORRELATION)
    rest = np.sqrt(1 - inside**2)
    out: Array = (inside / rest + (correlation - inside) / rest**3) / np.sqrt(share * (1 - share))
    return out


@dataclass(frozen=True)
class TargetCheck:
    """Scores of classifiers that learn from synthetic rows to predict one column, by reports alone.

    Arguments:
        target: The column.
        classifier: The method that learns.
        measure: Measure of its scores: the area under the curve, or R² of a number.
        reports: The score on people, by reports; None if no report covers the column with another.
        retained: Share of what real records would teach, above guessing; None if the model has the
            column independent of all others.
    """

    target: str
    classifier: str
    measure: str
    reports: Interval | None
    retained: float | None

    @property
    def finding(self) -> Finding:
        """The finding in words, as against real records."""
        topic = f"predicting {self.target}"
        if self.reports is None:
            words = f"no report covers {self.target} together with another column"
            return Finding(topic, "unknown", words)
        own = self.reports
        words = (
            f"{self.classifier} learned from synthetic records has {self.measure} {own.estimate:.2f} on "
            f"people ({own.low:.2f} to {own.high:.2f})"
        )
        if self.retained is None:
            words += ": it is independent of all other columns in the model"
            return Finding(topic, "unknown", words)
        words += f", and retains {self.retained:.0%} of what real records would teach, by rehearsal"
        if own.low - CHANCE[self.measure] < MIN_ABOVE_CHANCE:
            words += "; reports are too few to distinguish it from a guess"
            return Finding(topic, "unknown", words)
        return Finding(topic, grade_share(self.retained, RETAINED), words)


def require_target(schema: Schema, target: str) -> None:
    """Refuse a target that is no column of codes or numbers, or the only one.

    Raises:
        PrivotError: see above; or without scikit-learn.
    """
    require_sklearn()
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
    """Check how well classifiers of the model's rows predict a column.

    Arguments:
        model: Model of a table.
        releases: Its reports, or others'.
        target: The column.
        rehearsed: Reports of people drawn from the model, and the model fitted to them.
        growth: g, of pairs.
        seed: Seed of halves, rows and fits.
    """
    number = model.schema.coded[target].is_number
    name, measure = ("ridge regression", "R²") if number else ("logistic regression", "AUC")
    people, whole = model.sample(_NUM_TESTED, seed=seed + 1), rehearsed.model
    own, theirs = (
        score(*LinearPredictor.of(each, target, seed).on(people)) for each in (model, whole)
    )
    above, retained = own - CHANCE[measure], None
    if above >= MIN_ABOVE_CHANCE:
        retained = float(np.clip(1 - growth**2 * max(own - theirs, 0.0) / above, 0.0, 1.0))
    place, reports = list(model.schema.coded).index(target), CodeReports.of(releases)
    if not any(len(columns) == 2 and place in columns for columns in reports.by_columns):
        return TargetCheck(target, name, measure, None, retained)
    halves = CrossFit.of(model, releases, seed), CrossFit.of(whole, rehearsed.releases, seed)
    estimated = cross_fitted_score(*halves, whole, people, target, seed=seed)
    return TargetCheck(target, name, measure, estimated, retained)

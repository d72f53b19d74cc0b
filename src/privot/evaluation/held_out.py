r"""Train on synthetic, test on reports: whether a classifier of a column may be trusted.

Against real records `prediction` scores classifiers that learned from synthetic rows. Here there are
reports alone, and two questions take the place of one.

**What it scores on people** is told by halves of the reports (`halves`).

**What it keeps of what people would teach.** In the rehearsal the model stands for people: let A be the
score, on its people, of a classifier learned from them, A′ of one learned from the model of their
reports, and $g^2$ how much larger squared errors are than rehearsed (`rehearsal`). Kept is

$$ 1 − g^2 \frac{A − A′}{A − A_0} , $$

$A_0$ being a guess's score. It says nothing of what trees, or networks, would do with dependence that
the model lacks; `evaluate` does, if somebody may see real records.

Needs scikit-learn. Privacy review: computed from a release, a model of it and coins: post-processing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.evaluation import moments as of
from privot.evaluation.distances import Codes
from privot.evaluation.expected_reports import Heard, Interval, Z
from privot.evaluation.moments import Scores, delta
from privot.evaluation.prediction import (
    area_under_curve,
    one_hot,
    require_sklearn,
    sklearn,
    with_known_number,
    with_known_target,
)
from privot.evaluation.rehearsal import Beliefs, Rehearsed
from privot.evaluation.verdicts import GUESS, KEPT, TELLS, Finding, grade_share
from privot.local import LocalModel
from privot.local.classes.class_fit import fit_again
from privot.local.classes.mixture import LatentClassSampler
from privot.local.releases import Releases
from privot.randomizer import Release
from privot.randomizer.reports.rows import ReportTable
from privot.schema import Schema
from privot.schema.domains import Array

# Classifiers and regressions that are linear in codes, learned from rows that a model draws.
#
# Logistic regression of a column of categories, ridge regression of a number, as `prediction` and
# `regression` train them; of several classes, each against the rest. Their score of a record is a sum
# over its columns, so its moments are known of a model, and told by reports (`scores`). Of more than
# twelve classes the most frequent twelve are told.
#
# Needs scikit-learn. Privacy review: computed from a model's rows: post-processing of its reports.


_TRAINED = 20_000
_MOST_CLASSES = 12


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear classifier or regression of one column.

    Arguments:
        model: Whose rows taught it.
        target: The column that it tells.
        weights: Of the other columns' codes, one after the other (codes, G).
        classes: Which codes of the target (G,) have these scores; empty of a number.
        center: What a number's score is above or below.
        unit: In which it is.
    """

    model: LocalModel
    target: str
    weights: Array
    classes: Codes
    center: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, model: LocalModel, target: str, seed: int) -> Self:
        """From rows that a model draws."""
        schema, rows = model.schema, model.sample(_TRAINED, seed=seed)
        linear = sklearn("linear_model")
        if schema.coded[target].is_number:
            codes, numbers = with_known_number(schema, target, rows)
            ridge = linear.Ridge(alpha=1.0).fit(one_hot(schema, codes), numbers)
            unit = float(numbers.std()) or 1.0
            weights = ridge.coef_[:, None] / unit
            return cls(model, target, weights, np.arange(0), float(ridge.intercept_), unit)
        codes, answers = with_known_target(schema, target, rows)
        classes, counts = np.unique(answers, return_counts=True)
        inputs = one_hot(schema, codes)
        if len(classes) == 1:
            return cls(model, target, np.zeros((inputs.shape[1], 1)), classes)
        told = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CLASSES])
        told = classes[told[1:] if len(classes) == 2 else told]
        logistic = linear.LogisticRegression(max_iter=300)
        weights = [logistic.fit(inputs, answers == code).coef_[0] for code in told]
        return cls(model, target, np.stack(weights, axis=1), told)

    @property
    def is_number(self) -> bool:
        """Whether it is a regression."""
        return not self.classes.size

    def scores(self) -> Scores:
        """Of atoms of columns, with what is told of the target's."""
        schema, sampler = self.model.schema, self.model.sampler
        assert isinstance(sampler, LatentClassSampler)
        found, start = [], 0
        for name, place in zip(schema.coded, sampler.places, strict=True):
            size = schema.coded[name].alphabet.size
            if name != self.target:
                found.append(self.weights[start : start + size][place.codes])
                start += size
                continue
            missing = schema.coded[name].alphabet.missing
            known = np.ones(len(place.codes)) if missing is None else 1.0 * (place.codes != missing)
            if place.cells is None or not self.is_number:
                told = 1.0 * (place.codes[:, None] == self.classes)
            else:
                middle = (place.cells.low + place.cells.high) / 2
                told = (np.nan_to_num(middle)[:, None] - self.center) / self.unit
            found.append(told * known[:, None])
        return Scores(list(schema.coded).index(self.target), tuple(found), known)

    def points(self, codes: dict[str, Codes]) -> Array:
        """Scores (n, G) of the other columns' codes."""
        out: Array = one_hot(self.model.schema, codes) @ self.weights
        return out

    def on(self, table: pa.Table) -> tuple[Array, Array]:
        """On records: areas under the curve (G,), or R² (1,), and the classes' shares."""
        schema = self.model.schema
        if self.is_number:
            codes, numbers = with_known_number(schema, self.target, table)
            numbers = (numbers - self.center) / self.unit
            rest = ((numbers - self.points(codes)[:, 0]) ** 2).mean()
            return np.array([1 - rest / max(float(numbers.var()), 1e-12)]), np.ones(1)
        codes, answers = with_known_target(schema, self.target, table)
        areas = [
            area_under_curve(1 * (answers == code), np.stack([-own, own], axis=1))
            for code, own in zip(self.classes, self.points(codes).T, strict=True)
        ]
        return np.array(areas), np.array([(answers == code).mean() for code in self.classes])

    def moments(self, table: pa.Table) -> Array:
        """Of scores and classes among records (7, G), as `scores` orders them."""
        coded = self.model.schema.coded
        codes = {name: column.encode_codes(name, table) for name, column in coded.items()}
        missing, own = coded[self.target].alphabet.missing, codes.pop(self.target)
        points = self.points(codes)
        is_class = 1.0 * (own[:, None] == self.classes)
        known = np.ones((len(own), 1)) if missing is None else 1.0 * (own != missing)[:, None]
        known = np.broadcast_to(known, points.shape)
        each = points * is_class, points * known, points**2, points, is_class, is_class, known
        return np.array([one.mean(axis=0) for one in each])

    def square_where_known(self, table: pa.Table) -> Array:
        """Which part (G,) of the scores' squares is of records whose target is there."""
        coded = self.model.schema.coded
        codes = {name: column.encode_codes(name, table) for name, column in coded.items()}
        missing, own = coded[self.target].alphabet.missing, codes.pop(self.target)
        square, there = self.points(codes) ** 2, own >= 0 if missing is None else own != missing
        part: Array = square[there].sum(axis=0) / np.maximum(square.sum(axis=0), 1e-12)
        return part


def score(areas: Array, shares: Array) -> float:
    """All classes, each by its share."""
    return float(areas @ shares / max(shares.sum(), 1e-12))


# What a classifier learned from synthetic records scores on people, by halves of the reports.
#
# Reports are dealt into two halves by coins; a model is learned of each, by the settings chosen
# before, and logistic regression (of a number, ridge regression) from rows that it draws. Such a
# score is a sum over columns, so the other half's reports, which it has not seen, tell the moments of
# score and X without a model (`scores`). For a number they are all of $R^2$. For a class with share
# p, with ρ the correlation of its score and its indicator,
#
# $$ d = \frac{ρ}{\sqrt{p(1−p)(1−ρ^2)}} , \qquad AUC = Φ(c d) , $$
#
# where c is $1/\sqrt2$ if scores are normal in the class and the rest, with one variance, and that of
# the half's model else, whose own d and AUC are known. Both are told, and the interval holds both.
#
# **What halves cost.** Half of the reports teach less than all, and scores of people spread neither
# normally nor as in a model learned from so few. Both is known of people whom the model draws: they
# report (`rehearsal`), all of them and both halves are learned from, and the difference of what the
# whole scores, truly, and what the moments of a half's scores among these people come to is added,
# here of Φ⁻¹ of the AUC, or of R². Reports are no part of it, so that it adds little variance; as
# much is added as the two halves differ by. **Assumed** is that this difference is of people as it is
# of the model's.
#
# Needs scikit-learn. Privacy review: computed from a release, a model of it and coins:
# post-processing.
#
# References:
#     Hand, Till, *A simple generalisation of the area under the ROC curve* (2001). Bamber, *The area
# above     the ordinal dominance graph and the area below the receiver operating characteristic graph*
# (1975).     Efron, Tibshirani, *An introduction to the bootstrap* (1993), for correcting a bias.


_TESTED = 50_000
_STEEP = 0.95  # a correlation above which d goes on as a line: a bound would hide what is not known
_SMALLEST = 0.1  # of a d by which the model's AUC tells c


@dataclass(frozen=True, eq=False)
class Halves:
    """Models of either half of some reports, with what the other half says.

    Arguments:
        models: Of the one and the other half.
        others: What the other and the one half say.
    """

    models: tuple[LocalModel, ...]
    others: tuple[Heard, ...]

    @classmethod
    def of(cls, model: LocalModel, releases: Releases, seed: int) -> Self:
        """By coins, and by the settings that were chosen for `model`."""
        rng = np.random.default_rng(seed)
        sides = [rng.random(len(part)) < 0.5 for part in releases.parts]
        first, second = (
            Releases(tuple(map(partial(_some, side=side), releases.parts, sides)))
            for side in (False, True)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit of all reports has said it
            models = fit_again(model, first, seed), fit_again(model, second, seed)
        return cls(models, (Heard.of(second), Heard.of(first)))

    def taught(self, target: str, seed: int) -> list[Linear]:
        """What tells a column, learned from rows that each draws."""
        return [Linear.of(model, target, seed) for model in self.models]


def told_by_halves(
    own: Halves, rehearsed: Halves, whole: LocalModel, people: pa.Table, target: str, *, seed: int
) -> Interval:
    """The score on people of a classifier, or regression, that synthetic records teach.

    Arguments:
        own: Of people's reports.
        rehearsed: Of reports by people whom the model of all reports drew.
        whole: What all of these latter reports taught.
        people: Records that the model of all reports drew.
        target: The column that is told, of codes or numbers.
        seed: Of rows and fits.
    """
    pairs = zip(own.taught(target, seed), own.others, strict=True)
    found = [_on_reports(learned, other, seed) for learned, other in pairs]
    means, variances = np.mean(found, axis=0).T
    best = Linear.of(whole, target, seed)
    halves = [_without_noise(each, people, seed) for each in rehearsed.taught(target, seed)]
    short = _in_units(best, people) - np.array(halves)  # (halves, shapes)
    # Of the two halves' mean, of the whole here, and as much of the model and its halves.
    error = Z * np.sqrt(variances / 2 + 2 * short.var(axis=0, ddof=1))
    means = means + short.mean(axis=0)
    ends = np.array([means[0], (means - error).min(), (means + error).max()])
    told = np.clip(ends, -1.0, 1.0) if best.is_number else scipy.special.ndtr(ends)
    return Interval(*map(float, told))


def _without_noise(learned: Linear, people: pa.Table, seed: int) -> list[float]:
    """What reports of these people would tell, if there were very many: one a shape."""
    if learned.is_number:
        return [_in_units(learned, people)]
    part, shapes = _shapes(learned, seed)
    return [_normal_score(part, c, learned.moments(people).ravel()) for c in shapes]


def _in_units(learned: Linear, people: pa.Table) -> float:
    """R², or Φ⁻¹ of the AUC, on records."""
    made = score(*learned.on(people))
    return made if learned.is_number else float(scipy.special.ndtri(np.clip(made, 1e-6, 1 - 1e-6)))


def _on_reports(learned: Linear, heard: Heard, seed: int) -> list[tuple[float, float]]:
    """R², or Φ⁻¹ of the AUC, and its variance: by the model's shape of scores, and by a normal one."""
    scores, law = learned.scores(), Beliefs.of(learned.model).atoms
    told = of.heard_of(heard, law, scores)
    if not learned.is_number:
        part, shapes = _shapes(learned, seed)
        return [delta(partial(_normal_score, part, c), told.mean, told.spread) for c in shapes]
    drawn = learned.model.sample(_TESTED, seed=seed + 2)
    made, part = learned.on(drawn)[0], learned.square_where_known(drawn)
    # Within atoms numbers are not where their middle is: the model's rows tell what that is.
    more = float(made[0]) - _explained(part, of.believed(law, scores))
    value, variance = delta(partial(_explained, part), told.mean, told.spread)
    return [(value + more, variance)]


def _shapes(learned: Linear, seed: int) -> tuple[Array, tuple[Array, Array]]:
    """Which part of squares is of known targets, and c of every class: the model's, and a normal one."""
    drawn = learned.model.sample(_TESTED, seed=seed + 2)
    made, part = learned.on(drawn)[0], learned.square_where_known(drawn)
    own = of.believed(Beliefs.of(learned.model).atoms, learned.scores())
    apart, normal = _apart(own, part), np.full(len(made), 0.5**0.5)
    clear = abs(apart) > _SMALLEST
    as_model = scipy.special.ndtri(np.clip(made, 1e-6, 1 - 1e-6)) / np.where(clear, apart, 1.0)
    return part, (np.where(clear, as_model, normal), normal)


def _explained(part: Array, moments: Array) -> float:
    """R² by the moments of a number."""
    m = moments.reshape(7, -1)[:, 0]
    known = max(m[of.KNOWN], 1e-6)
    rest = (m[of.TARGET_SQUARE] - 2 * m[of.SCORE_TARGET] + part[0] * m[of.SCORE_SQUARE]) / known
    spread = m[of.TARGET_SQUARE] / known - (m[of.TARGET] / known) ** 2
    return float(1 - rest / max(spread, 1e-9))


def _normal_score(part: Array, steep: Array, moments: Array) -> float:
    """Φ⁻¹ of the AUC by the moments, of several classes by their shares."""
    table = moments.reshape(7, len(steep))
    normal = steep * _apart(table, part)
    if len(normal) == 1:
        return float(normal[0])
    areas, shares = scipy.special.ndtr(normal), np.clip(table[of.TARGET], 0.0, 1.0)
    return float(scipy.special.ndtri(np.clip(score(areas, shares + 1e-9), 1e-9, 1 - 1e-9)))


def _apart(moments: Array, part: Array) -> Array:
    """How far each class's mean score is from the rest's, in standard deviations within."""
    known = np.clip(moments[of.KNOWN], 1e-6, None)
    share = np.clip(moments[of.TARGET] / known, 0.005, 0.995)
    mean = moments[of.SCORE_KNOWN] / known
    common = moments[of.SCORE_TARGET] / known - mean * share
    spread = moments[of.SCORE_SQUARE] * part / known - mean**2
    scale = np.sqrt(np.clip(spread, 1e-9, None) * share * (1 - share))
    correlation = common / scale
    inside = np.clip(correlation, -_STEEP, _STEEP)
    rest = np.sqrt(1 - inside**2)
    out: Array = (inside / rest + (correlation - inside) / rest**3) / np.sqrt(share * (1 - share))
    return out


def _some(part: Release, sides: NDArray[np.bool_], side: bool) -> Release:
    return Release(ReportTable.of(part.table.filter(pa.array(sides == side))), part.randomizer)


@dataclass(frozen=True)
class Telling:
    """How well one column is told from the others by what synthetic rows teach, by reports alone.

    Arguments:
        target: The column.
        classifier: What learns.
        measure: Of its scores: the area under the curve, or R² of a number.
        reports: The score on people, by reports; None if nobody was asked the column with another.
        kept: Share of what people would teach, above guessing; None if the model ties it to nothing.
    """

    target: str
    classifier: str
    measure: str
    reports: Interval | None
    kept: float | None

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """What `dataclasses.asdict` wrote."""
        told = fields["reports"]
        return cls(**dict(fields) | {"reports": None if told is None else Interval(**told)})

    @property
    def finding(self) -> Finding:
        """In words, as against real records."""
        topic = f"telling {self.target}"
        if self.reports is None:
            words = f"nobody was asked {self.target} together with another column"
            return Finding(topic, "unknown", words)
        own, low, high = self.reports.estimate, self.reports.low, self.reports.high
        words = (
            f"{self.classifier} learned from synthetic records has {self.measure} {own:.2f} on people "
            f"({low:.2f} to {high:.2f})"
        )
        if self.kept is None:
            return Finding(topic, "unknown", f"{words}: the model ties it to no other column")
        words += f", and keeps {self.kept:.0%} of what people would teach, by rehearsal"
        if low - GUESS[self.measure] < TELLS:
            return Finding(
                topic, "unknown", f"{words}; reports are too few to say more than a guess"
            )
        return Finding(topic, grade_share(self.kept, KEPT), words)


def require_told(schema: Schema, target: str) -> None:
    """Refuse a target that is no column of codes or numbers, or the only one.

    Raises:
        PrivotError: see above; or without scikit-learn.
    """
    require_sklearn()
    known = [name for name in schema.coded if name not in schema.vectors]
    if target not in known or len(schema.coded) < 2:
        raise PrivotError(
            f"target {target!r} is none of {known}, or alone: name one that others may tell"
        )


def tell(
    model: LocalModel,
    releases: Releases,
    target: str,
    rehearsed: Rehearsed,
    growth: float,
    *,
    seed: int,
) -> Telling:
    """What synthetic rows teach of a column.

    Arguments:
        model: Of a table.
        releases: Its reports, or others'.
        target: The column.
        rehearsed: What the model's people reported, and what was learned of it.
        growth: g, of pairs.
        seed: Of halves, rows and fits.
    """
    number = model.schema.coded[target].is_number
    name, measure = ("ridge regression", "R²") if number else ("logistic regression", "AUC")
    people, whole = model.sample(_TESTED, seed=seed + 1), rehearsed.models[0]
    own, theirs = (score(*Linear.of(each, target, seed).on(people)) for each in (model, whole))
    above, kept = own - GUESS[measure], None
    if above >= TELLS:
        kept = float(np.clip(1 - growth**2 * max(own - theirs, 0.0) / above, 0.0, 1.0))
    place, heard = list(model.schema.coded).index(target), Heard.of(releases)
    if not any(len(q) == 2 and place in heard.columns(q) for q in heard.pairs):
        return Telling(target, name, measure, None, kept)
    halves = Halves.of(model, releases, seed), Halves.of(whole, rehearsed.releases[0], seed)
    told = told_by_halves(*halves, whole, people, target, seed=seed)
    return Telling(target, name, measure, told, kept)

r"""What a classifier learned from synthetic records scores on people, by halves of the reports.

Reports are dealt into two halves by coins; a model is learned of each, by the settings chosen before,
and logistic regression (of a number, ridge regression) from rows that it draws. Such a score is a sum
over columns, so the other half's reports, which it has not seen, tell the moments of score and X without
a model (`scores`). For a number they are all of $R^2$. For a class with share p, with ρ the correlation
of its score and its indicator,

$$ d = \frac{ρ}{\sqrt{p(1−p)(1−ρ^2)}} , \qquad AUC = Φ(c d) , $$

where c is $1/\sqrt2$ if scores are normal in the class and the rest, with one variance, and that of the
half's model else, whose own d and AUC are known. Both are told, and the interval holds both.

**What halves cost.** Half of the reports teach less than all, and scores of people spread neither
normally nor as in a model learned from so few. Both is known of people whom the model draws: they
report (`rehearsal`), all of them and both halves are learned from, and the difference of what the whole
scores, truly, and what the moments of a half's scores among these people come to is added, here of
Φ⁻¹ of the AUC, or of R². Reports are no part of it, so that it adds little variance; as much is added
as the two halves differ by. **Assumed** is that this difference is of people as it is of the model's.

Needs scikit-learn. Privacy review: computed from a release, a model of it and coins: post-processing.

References:
    Hand, Till, *A simple generalisation of the area under the ROC curve* (2001). Bamber, *The area above
    the ordinal dominance graph and the area below the receiver operating characteristic graph* (1975).
    Efron, Tibshirani, *An introduction to the bootstrap* (1993), for correcting a bias.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from privot.evaluation import scores as of
from privot.evaluation.estimates import Interval, Z
from privot.evaluation.heard import Heard
from privot.evaluation.linear import Linear, score
from privot.evaluation.moments import delta
from privot.evaluation.rehearsal import Beliefs
from privot.local import LocalModel
from privot.local.classes.class_fit import fit_again
from privot.local.releases import Releases
from privot.release import Release
from privot.release.reports.rows import ReportTable
from privot.schema import Array

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

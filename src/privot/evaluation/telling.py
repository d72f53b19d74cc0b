r"""Train on synthetic, test on reports: whether a classifier of a column may be trusted.

Against real records `prediction` scores classifiers that learned from synthetic rows. Here there are
reports alone, and two questions take the place of one.

**What it scores on people.** Reports are dealt into two halves by coins; a model is learned of each, by
the settings chosen before, and logistic regression (of a number, ridge regression) from rows that it
draws. Such a score is a sum over columns, so the other half's reports, which it has not seen, tell the
moments of score and X without a model (`scores`). For a number they are all of $R^2$. For a class with
share p, with ρ the correlation of its score and its indicator,

$$ d = \frac{ρ}{\sqrt{p(1−p)(1−ρ^2)}} , \qquad AUC = Φ(c d) , $$

where c is $1/\sqrt2$ if scores are normal in the class and the rest, with one variance, and that of the
half's model else, whose own d and AUC are known. What is told is by the model's; the interval is of
$\pm 1.645$ standard errors before Φ by either. So **assumed** is that scores spread in classes about as
in the model, or normally. It is of classifiers that saw half of the reports: those of all are a little
better, where ε is small by some hundredths.

**What it keeps of what people would teach.** In the rehearsal the model stands for people: let A be the
score, on its people, of a classifier learned from them, A′ of one learned from the model of their
reports, and $g^2$ how much larger squared errors are than rehearsed (`rehearsal`). Kept is

$$ 1 − g^2 \frac{A − A′}{A − A_0} , $$

$A_0$ being a guess's score. It says nothing of what trees, or networks, would do with dependence that
the model lacks; `evaluate` does, if somebody may see real records.

Needs scikit-learn. Privacy review: computed from a release, a model of it and coins: post-processing.

References:
    Hand, Till, *A simple generalisation of the area under the ROC curve* (2001). Bamber, *The area above
    the ordinal dominance graph and the area below the receiver operating characteristic graph* (1975).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privot.errors import PrivotError
from privot.evaluation import scores as of
from privot.evaluation.estimates import Interval, Z
from privot.evaluation.heard import Heard
from privot.evaluation.linear import Linear
from privot.evaluation.moments import delta
from privot.evaluation.prediction import require_sklearn
from privot.evaluation.rehearsal import Beliefs
from privot.evaluation.verdict import GUESS, KEPT, TELLS, Finding, grade_share
from privot.local import LocalModel
from privot.local.classes.class_fit import fit_again
from privot.local.releases import Releases
from privot.release import Release
from privot.release.reports.rows import ReportTable
from privot.schema import Array, Schema

_TESTED = 50_000
_STEEP = 0.95  # a correlation above which d goes on as a line: a bound would hide what is not known
_SMALLEST = 0.1  # of a d by which the model's AUC tells c


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


def score(areas: Array, shares: Array) -> float:
    """All classes, each by its share."""
    return float(areas @ shares / max(shares.sum(), 1e-12))


def tell(
    model: LocalModel,
    releases: Releases,
    target: str,
    rehearsed: LocalModel,
    growth: float,
    *,
    seed: int,
) -> Telling:
    """What synthetic rows teach of a column.

    Arguments:
        model: Of a table.
        releases: Its reports, or others'.
        target: The column.
        rehearsed: What the rehearsal learned of the model's people.
        growth: g, of pairs.
        seed: Of halves, rows and fits.
    """
    number = model.schema.coded[target].is_number
    name, measure = ("ridge regression", "R²") if number else ("logistic regression", "AUC")
    people = model.sample(_TESTED, seed=seed + 1)
    own, theirs = (score(*Linear.of(each, target, seed).on(people)) for each in (model, rehearsed))
    above, kept = own - GUESS[measure], None
    if above >= TELLS:
        kept = float(np.clip(1 - growth**2 * max(own - theirs, 0.0) / above, 0.0, 1.0))
    place, heard = list(model.schema.coded).index(target), Heard.of(releases)
    asked = any(len(q) == 2 and place in heard.columns(q) for q in heard.pairs)
    told = _by_halves(model, releases, target, seed) if asked else None
    return Telling(target, name, measure, told, kept)


def _by_halves(model: LocalModel, releases: Releases, target: str, seed: int) -> Interval:
    """The score on people of what either half teaches, by the other half."""
    rng = np.random.default_rng(seed)
    sides = [rng.random(len(part)) < 0.5 for part in releases.parts]
    first, second = (
        Releases(tuple(_some(p, own == side) for p, own in zip(releases.parts, sides, strict=True)))
        for side in (False, True)
    )
    found = []
    for half, other in ((first, second), (second, first)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit of all reports has said it
            learned = Linear.of(fit_again(model, half, seed), target, seed)
        found.append(_on_reports(learned, Heard.of(other), seed))
    means, variances = np.mean(found, axis=0).T
    error = Z * np.sqrt(variances / 2)
    ends = np.array([means[0], (means - error).min(), (means + error).max()])
    told = np.clip(ends, -1.0, 1.0) if learned.is_number else ndtr(ends)
    return Interval(*map(float, told))


def _on_reports(learned: Linear, heard: Heard, seed: int) -> list[tuple[float, float]]:
    """R², or Φ⁻¹ of the AUC, and its variance: by the model's shape of scores, and by a normal one."""
    scores, law = learned.scores(), Beliefs.of(learned.model).atoms
    own, told = of.believed(law, scores), of.heard_of(heard, law, scores)
    drawn = learned.model.sample(_TESTED, seed=seed + 2)
    made, part = learned.on(drawn)[0], learned.square_where_known(drawn)
    if learned.is_number:
        # Within atoms numbers are not where their middle is: the model's rows tell what that is.
        more = float(made[0]) - _explained(part, own)
        value, variance = delta(partial(_explained, part), told.mean, told.spread)
        return [(value + more, variance)]
    apart, normal = _apart(own, part), np.full(len(made), 0.5**0.5)
    clear = abs(apart) > _SMALLEST
    as_model = ndtri(np.clip(made, 1e-6, 1 - 1e-6)) / np.where(clear, apart, 1.0)
    shapes = np.where(clear, as_model, normal), normal
    return [delta(partial(_normal_score, part, c), told.mean, told.spread) for c in shapes]


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
    areas, shares = ndtr(normal), np.clip(table[of.TARGET], 0.0, 1.0)
    return float(ndtri(np.clip(score(areas, shares + 1e-9), 1e-9, 1 - 1e-9)))


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


def _some(part: Release, kept: NDArray[np.bool_]) -> Release:
    return Release(ReportTable.of(part.table.filter(pa.array(kept))), part.randomizer)

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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from privot.errors import PrivotError
from privot.evaluation.estimates import Interval
from privot.evaluation.halves import Halves, told_by_halves
from privot.evaluation.heard import Heard
from privot.evaluation.linear import Linear, score
from privot.evaluation.prediction import require_sklearn
from privot.evaluation.rehearsal import Rehearsed
from privot.evaluation.verdict import GUESS, KEPT, TELLS, Finding, grade_share
from privot.local import LocalModel
from privot.local.releases import Releases
from privot.schema import Schema

_TESTED = 50_000


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

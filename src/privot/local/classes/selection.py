r"""Settings of latent classes, chosen by held-out reports.

Reports are private already, so looking at held-out ones costs nothing. Up to five disjoint tenths of the
people are held out in turn (fewer when each is large); a setting's score is the mean gain in
log-likelihood of a held-out report over independence. What a fold learns from, its prior's marginals
included, is of the other reports alone: marginals of all of them would tell of what is held out, which
at small ε is more than any dependence is worth.

For each kind of prior (`Prior`), numbers of classes are tried upward until two in a row are out of reach
of the best, then strengths at the best number, then its neighbors at a better strength; passes by early
stopping, all folds in step. Where dependence is plain to see, two folds decide as well as five, and
later kinds are tried with numbers next to the best so far. A best score under two of its standard errors
means that the reports show no dependence: one class. (It is the best of a dozen or two that are tried.)

Kept is every setting within three standard errors of the best, of the paired difference, report by
report: which of them is best is not known.

References:
    Smyth, *Model selection for probabilistic clustering using cross-validated likelihood* (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privot.local.classes.ascent import ascend, random_start
from privot.local.classes.class_settings import LatentClassSettings
from privot.local.classes.count_tables import Array, CountTables
from privot.local.classes.course import Course, at_once
from privot.local.classes.expectation import expectation
from privot.local.classes.marginals import stacked_marginals

_PARTS = 10  # a tenth of the people is held out at a time
_CLEAR = 2.0  # standard errors from which dependence is believed
_FEW_FOLDS, _PLAIN = 2, 15.0  # folds that are enough where dependence is so many errors
_SCOUTS = 4  # classes by which that is seen
_NATS = 2.0  # of all held-out reports, as independence itself is known to so many only
_ENOUGH_HELD_OUT = 20_000  # held-out people at which one fold decides as well as five


@dataclass(frozen=True)
class Trial:
    """A setting, its best number of passes, and its gain over independence in nats a held-out report.

    `prior` is which one of those that were tried.
    """

    num_classes: int
    strength: float
    passes: int
    gain: float
    standard_error: float
    prior: int = 0


@dataclass(frozen=True, eq=False)
class Prior:
    """One kind of prior on classes' columns, centred on the marginals, and the settings to try with it.

    Args:
        factors: of the strength for each piece (pieces, 1), the same for all of a column.
        settings: class numbers and strengths.
    """

    factors: Array
    settings: LatentClassSettings


def in_words(trials: Sequence[Trial]) -> str:
    """What held-out reports said of dependence, given the settings to average, best first."""
    best = trials[0]
    if best.num_classes == 1:
        return "independence: the reports show no dependence"
    gain, error = f"{best.gain:.2g}", f"{best.standard_error:.1g}"
    return f"classes: {gain} ± {error} nats a held-out report better than independence"


INDEPENDENCE = Trial(num_classes=1, strength=1.0, passes=0, gain=0.0, standard_error=0.0)


@dataclass(frozen=True, eq=False)
class _Fold:
    training: CountTables
    held_out: CountTables
    marginals: Array
    baseline: Array  # ln L of the reports under independence


@dataclass(frozen=True, eq=False)
class _Score:
    trial: Trial
    gains: Array  # of every held-out report over independence, all folds
    people: Array  # who sent it


@dataclass(frozen=True, eq=False)
class _Effort:
    priors: Sequence[Prior]
    number: int  # of the prior that is tried
    seed: int
    course: Course

    @property
    def settings(self) -> LatentClassSettings:
        """Those of the prior."""
        return self.priors[self.number].settings

    def ahead(self, tried: int) -> int:
        """How many settings and fits there are to come, about."""
        each = [prior.settings for prior in self.priors]
        most = sum(len(one.class_counts) + len(one.strengths) + 1 for one in each)
        return max(0, most - tried) + each[0].starts


def choose(
    tables: CountTables,
    marginals: Array,
    priors: Sequence[Prior],
    seed: int,
    course: Course | None = None,
) -> tuple[Trial, ...]:
    """The settings to average, best first; `INDEPENDENCE` alone if none is clearly better."""
    folds = _folds(tables, marginals, seed) if tables.sees_pairs else []
    if not folds:
        return (INDEPENDENCE,)
    course = course or Course()
    few = folds[:_FEW_FOLDS]
    scout = _try(few, _SCOUTS, priors[0].settings.strengths[0], _Effort(priors, 0, seed, course))
    if scout.trial.gain > _PLAIN * scout.trial.standard_error:
        folds = few
    scores: list[_Score] = []
    for number in range(len(priors)):
        effort = _Effort(priors, number, seed, course)
        hurried = bool(scores) and folds is few
        around = _best(scores).trial.num_classes if hurried else None
        scores += _search(folds, around, effort)
    if not scores:
        return (INDEPENDENCE,)
    best = _best(scores)
    least = max(_CLEAR * best.trial.standard_error, _NATS / best.people.sum())
    if best.trial.gain <= least:
        return (INDEPENDENCE,)
    reach = priors[0].settings.reach
    kept = [score.trial for score in scores if _within(reach, score, best)]
    return tuple(sorted(kept, key=lambda trial: -trial.gain))


def _search(folds: list[_Fold], around: int | None, effort: _Effort) -> list[_Score]:
    """With one prior: numbers of classes, then strengths at the best, then its neighbors.

    Only numbers next to `around`, if it is given.
    """
    strengths = effort.settings.strengths
    base = strengths[0]
    numbers = [count for count in effort.settings.class_counts if count > 1]
    if around is not None:
        distances = np.abs(np.searchsorted(numbers, around) - np.arange(len(numbers)))
        numbers = [n for n, far in zip(numbers, distances.tolist(), strict=True) if far <= 1]
    if not numbers or (effort.number and effort.course.over()):
        return []
    scores = _climb(folds, [(number, base) for number in numbers], [], 2, effort)
    number = _best(scores).trial.num_classes
    for others in (
        sorted(strength for strength in strengths if strength > base),
        sorted((strength for strength in strengths if strength < base), reverse=True),
    ):
        pairs = [(number, strength) for strength in others]
        scores = _climb(folds, pairs, scores, 1, effort)
    strength = _best(scores).trial.strength
    if strength != base:
        place = numbers.index(number)
        near = numbers[max(place - 1, 0) : place] + numbers[place + 1 : place + 2]
        pairs = [(neighbor, strength) for neighbor in near]
        scores = _climb(folds, pairs, scores, 2, effort)
    return scores


def _folds(tables: CountTables, start: Array, seed: int) -> list[_Fold]:
    tenth = tables.num_people / _PARTS
    number = int(np.clip(np.ceil(_ENOUGH_HELD_OUT / max(tenth, 1.0)), 1, 5))
    folds = []
    for drawn in tables.held_out(number, _PARTS, np.random.default_rng([seed, 0])):
        training, held_out = tables.with_counts(tables.counts - drawn.counts).sent(), drawn.sent()
        if held_out.num_people and training.num_people:
            marginals = stacked_marginals(training, start=start, tolerance=1e-5)
            baseline = expectation(held_out, marginals, np.ones(1)).log_likelihood
            folds.append(_Fold(training, held_out, marginals, baseline))
    return folds


def _best(scores: list[_Score]) -> _Score:
    return max(scores, key=lambda score: score.trial.gain)


def _within(reach: float, score: _Score, best: _Score) -> bool:
    """Whether `score` trails `best` by at most `reach` standard errors of the paired difference."""
    mean, error = _mean_and_error(best.gains - score.gains, best.people)
    return mean <= reach * error


def _mean_and_error(values: Array, people: Array) -> tuple[float, float]:
    total = people.sum()
    mean = float(people @ values / total)
    return mean, float(np.sqrt(people @ (values - mean) ** 2) / total)


def _climb(
    folds: list[_Fold],
    pairs: list[tuple[int, float]],
    scores: list[_Score],
    patience: int,
    effort: _Effort,
) -> list[_Score]:
    """`scores` and those of (classes, strength) in turn, until `patience` in a row are out of reach."""
    scores, beyond = list(scores), 0
    for num_classes, strength in pairs:
        if scores and effort.course.over():
            break
        score = _try(folds, num_classes, strength, effort)
        scores.append(score)
        effort.course.tried(_best(scores).trial.gain, effort.ahead(len(scores)))
        beyond = 0 if _within(effort.settings.reach, score, _best(scores)) else beyond + 1
        if beyond == patience:
            break
    return scores


def _try(folds: list[_Fold], num_classes: int, strength: float, effort: _Effort) -> _Score:
    """One setting on all folds in step, until the held-out gain has stopped growing."""
    people = np.concatenate([fold.held_out.counts for fold in folds])
    settings, seed = effort.settings, effort.seed
    factors = effort.priors[effort.number].factors
    every = settings.check_every
    states = [
        random_start(fold.marginals, fold.training, num_classes, seed, number)
        for number, fold in enumerate(folds)
    ]
    best: _Score | None = None

    def climb(fold: _Fold, state: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        state = ascend(fold.training, fold.marginals * factors, *state, strength, every)
        return state, expectation(fold.held_out, *state).log_likelihood - fold.baseline

    for passes in range(every, settings.max_passes + every, every):
        found = list(at_once(climb, zip(folds, states, strict=True)))
        states = [state for state, _ in found]
        gains = np.concatenate([gain for _, gain in found])
        mean, error = _mean_and_error(gains, people)
        if best is None or mean > best.trial.gain:
            trial = Trial(num_classes, strength, passes, mean, error, effort.number)
            best = _Score(trial, gains, people)
        elif passes - best.trial.passes >= settings.patience * every:
            break
        if effort.course.over():
            break
    assert best is not None  # max_passes is at least 1
    return best

"""Settings of latent classes, chosen by held-out reports.

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

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from privot.core.errors import PrivotError
from privot.local.classes.counts import Array, CountTables, ReportGroup, count_tables
from privot.local.classes.expectation import ascend, expectation, random_start
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.mixture import LatentClasses
from privot.training import Patience, Progress
from privot.training.settings import num_threads

# What to try when latent classes are fitted, and how hard.


@dataclass(frozen=True)
class LatentClassSettings:
    """What to try, and how hard.

    Args:
        class_counts: numbers of classes, increasing; 1 (independence) is always tried.
        strengths: α; the first is used while the number of classes is chosen.
        starts: fits of each kept setting that are averaged.
        reach: standard errors below the best at which a setting is still kept.
        max_passes: EM steps at most; the best number is chosen too.
        check_every: EM steps between looks at the held-out reports.
        patience: looks without improvement until a setting's fit ends.

    Raises:
        PrivotError: if a number is not positive.
    """

    class_counts: tuple[int, ...] = (2, 4, 8, 16, 24, 32)
    strengths: tuple[float, ...] = (1.0, 0.3, 3.0, 10.0)
    starts: int = 3
    reach: float = 3.0
    max_passes: int = 150
    check_every: int = 5
    patience: int = 3

    def __post_init__(self) -> None:
        numbers = (self.starts, self.max_passes, self.check_every, self.patience)
        if min(*numbers, *self.class_counts) < 1 or not min(self.strengths, default=0) > 0:
            raise PrivotError(f"settings are {self!r}: give positive numbers, and a strength")
        if not self.reach >= 0:
            raise PrivotError(
                f"reach is {self.reach!r}: give a number of standard errors, 0 or more"
            )


# Where classes lie along a number, one person of the prior in each leaks much of it to the others.
OF_CURVES = LatentClassSettings(class_counts=(4, 8, 16, 32), strengths=(0.1, 1.0, 3.0, 10.0, 30.0))
# With a strength for each column.
RELEVANT = LatentClassSettings(class_counts=(4, 8, 16, 24, 32), strengths=(0.1, 0.3, 1.0))


# Where a fit of latent classes is: told to whoever watches, and ended early where time is up.


Result = TypeVar("Result")


class Course:
    """Settings that were tried and fits that were averaged, as steps.

    Arguments:
        patience: Asked between passes whether to rest content with what there is.
        progress: Told after every setting and every fit; the loss is minus the best gain over
            independence, in nats a held-out report.
    """

    def __init__(self, patience: Patience | None = None, progress: Progress | None = None) -> None:
        self._patience, self._progress = patience or Patience(), progress
        self._done, self._loss = 0, 0.0

    def over(self) -> bool:
        """Whether to go on with what was tried until now."""
        return self._patience.over()

    def tried(self, gain: float, ahead: int) -> None:
        """A setting was tried, the best has this gain, and at most so many steps are ahead."""
        self._loss = -gain
        self.fitted(ahead)

    def fitted(self, ahead: int) -> None:
        """A step was made, and so many are ahead."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._done + ahead, self._loss)


def at_once(
    function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]]
) -> Iterator[Result]:
    """A function's results in order, in as many threads as this process has: kernels need no lock."""
    calls = list(arguments)
    workers = min(num_threads(), len(calls))
    if workers < 2:
        yield from (function(*each) for each in calls)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda each: function(*each), calls)


# How far each column may differ between classes, by reports that were held out.
#
# The prior on a class's columns, centred on the marginals, has the strength of some people. One
# strength for all columns is too little for those that depend on nothing, whose classes learn noise,
# and too much for those that say who belongs where. So a column has a factor of its own: of a few
# classes fitted to most people, its tables $p_c(·|z)$ are shrunk towards their marginal,
#
# $$ (1 − s)\, p_c(v|z) + s\, m_c(v) , $$
#
# by the mean s with held-out reports' likelihood as weight (its largest alone would be noise where
# they tell little). A prior of α people among $n_c$ in a class shrinks by $s = α / (α + n_c)$, so the
# strength becomes $n_c\, s/(1−s)$, between one person and a thousand.
#
# Reports are private already: looking at held-out ones costs nothing. Marginals, too, are of the
# others.


_CLASSES, _PASSES = 8, 60
_FOLDS, _RELEVANCE_PARTS = 3, 10
_MOST = 1000.0
_SHRUNK = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97])


def relevance(tables: CountTables, marginals: Array, seed: int) -> Array:
    """A factor of the prior's strength for each piece (pieces, 1), the same for all of a column.

    Ones where no report is about two columns: held-out reports say nothing of dependence then.
    """
    if not tables.sees_pairs:
        return np.ones_like(marginals)
    columns = tables.sizes.size
    gains, told = np.zeros((columns, len(_SHRUNK))), np.zeros(columns)
    rng = np.random.default_rng([seed, 2])
    for fold, drawn in enumerate(tables.held_out(_FOLDS, _RELEVANCE_PARTS, rng)):
        training, held_out = tables.with_counts(tables.counts - drawn.counts).sent(), drawn.sent()
        own = stacked_marginals(training, start=marginals, tolerance=1e-5)
        at = random_start(own, training, _CLASSES, seed, fold)
        p, weights = ascend(training, own, *at, 1.0, _PASSES)
        for column in range(columns):
            part = slice(*tables.offsets[column : column + 2])
            for number, share in enumerate(_SHRUNK):
                shrunk = p.copy()
                shrunk[part] = (1 - share) * p[part] + share * own[part]
                found = expectation(held_out, shrunk, weights)
                gains[column, number] += found.total(held_out.counts)
        cells = expectation(training, p, weights).cells.sum(axis=1)
        told += np.add.reduceat(cells, tables.offsets[:-1]) / (_FOLDS * _CLASSES)
    likelihood = np.exp(gains - gains.max(axis=1, keepdims=True))
    share = likelihood @ _SHRUNK / likelihood.sum(axis=1)
    strength = np.clip(told * share / (1 - share), 1.0, _MOST)
    return strength[tables.column_of_piece(), None]


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


# Fit latent classes to privatized reports: EM, what to choose from held-out reports, an ensemble.
#
# **Objective.** The reports' exact log-likelihood (`expectation`) plus the log density of a prior,
#
# $$ \sum n \ln L + α \sum_c \sum_{v,z} m_c(v) \ln p_c(v|z) + \sum_z \ln π_z , $$
#
# a Dirichlet prior on every class's columns, centred on the columns' maximum-likelihood marginals
# $m_c$ with the strength α of so many people, and one person a class. An EM step adds the prior to
# the expected counts and normalizes; the objective never falls. It has many maxima, and those of many
# classes fit the noise, so the number of passes is a setting too, as it is in Richardson–Lucy
# deconvolution.
#
# **Choice.** Numbers of classes, strengths and passes are chosen by held-out reports (`selection`).
# Besides the one strength for all columns, factors for each are tried (`relevance`).
#
# **Ensemble.** Every setting that is kept is fitted to all reports from several starts, and the
# distributions are averaged: log-likelihood is concave in the distribution, so the average is at
# least as good as its members are on average. What differs between local maxima is mostly noise.
#
# References:
#     Dempster, Laird, Rubin (1977); Vermunt et al., *Multiple imputation of incomplete categorical data
#     using latent class analysis* (2008).


_FIRST_START = 100  # folds start from others than the final fits


def fit_latent_classes(
    groups: Iterable[ReportGroup],
    sizes: Sequence[int],
    *,
    settings: LatentClassSettings | None = None,
    seed: int,
) -> LatentClasses:
    """The averaged model of the settings that held-out reports prefer; the same for the same seed.

    Equals the product of the columns' maximum-likelihood marginals if the reports show no dependence.
    Its own marginals are the exact likelihood's; `rake` gives it others.

    Raises:
        PrivotError: if the groups contradict `sizes`.
    """
    tables = count_tables(groups, sizes)
    marginals = stacked_marginals(tables)
    if settings is None:
        priors = priors_of_codes(tables, marginals, seed)
    else:
        priors = [Prior(np.ones_like(marginals), settings)]
    trials = choose(tables, marginals, priors, seed)
    return refit(tables, marginals, priors, trials, seed)


def priors_of_codes(tables: CountTables, marginals: Array, seed: int) -> list[Prior]:
    """What is tried where every column is asked in one alphabet: one strength, and one a column."""
    return [
        Prior(np.ones_like(marginals), LatentClassSettings()),
        Prior(relevance(tables, marginals, seed), RELEVANT),
    ]


def refit(
    tables: CountTables,
    marginals: Array,
    priors: Sequence[Prior],
    trials: Sequence[Trial],
    seed: int,
    course: Course | None = None,
) -> LatentClasses:
    """Every trial's setting fitted to all reports from several starts, averaged."""

    def fitted(trial: Trial, start: int) -> LatentClasses:
        number = _FIRST_START + start
        p, weights = random_start(marginals, tables, trial.num_classes, seed, number)
        prior = marginals * priors[trial.prior].factors
        p, weights = ascend(tables, prior, p, weights, trial.strength, trial.passes)
        return LatentClasses(weights, tuple(np.split(p, tables.offsets[1:-1])))

    starts = [
        (trial, start)
        for trial in trials
        for start in range(1 if trial.num_classes == 1 else priors[trial.prior].settings.starts)
    ]
    course = course or Course()
    if course.over():
        starts = starts[:1]
    models = []
    for model in at_once(fitted, starts):
        models.append(model)
        course.fitted(ahead=len(starts) - len(models))
    return LatentClasses.average(models)

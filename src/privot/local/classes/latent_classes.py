r"""Fit latent classes to privatized reports: EM, what to choose from held-out reports, an ensemble.

**Objective.** The reports' exact log-likelihood (`expectation`) plus the log density of a prior,

$$ \sum n \ln L + α \sum_c \sum_{v,z} m_c(v) \ln p_c(v|z) + \sum_z \ln π_z , $$

a Dirichlet prior on every class's columns, centred on the columns' maximum-likelihood marginals $m_c$
with the strength α of so many people, and one person a class. An EM step adds the prior to the
expected counts and normalizes; the objective never falls. It has many maxima, and those of many classes
fit the noise, so the number of passes is a setting too, as it is in Richardson–Lucy deconvolution.

**Choice.** Reports are private already, so looking at held-out ones costs nothing. Up to five
disjoint tenths of the people are held out in turn (fewer when each is large); a setting's score is
the mean gain in log-likelihood of a held-out report over independence. Numbers of classes are tried
upward until two in a row are out of reach of the best, then strengths at the best number, then its
neighbors at a better strength; passes by early stopping, all folds in step. A best score under two
of its standard errors means that the reports show no dependence: one class.

**Ensemble.** Every setting within three standard errors of the best (of the paired difference,
report by report) is fitted to all reports from several starts, and the distributions are averaged:
which of them is best is not known, and log-likelihood is concave in the distribution, so the
average is at least as good as its members are on average. What differs between local maxima is
mostly noise.

References:
    Dempster, Laird, Rubin (1977); Vermunt et al., *Multiple imputation of incomplete categorical data
    using latent class analysis* (2008); Smyth, *Model selection for probabilistic clustering using
    cross-validated likelihood* (2000).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from privot.errors import PrivotError
from privot.local.classes.count_tables import Array, CountTables, ReportGroup, count_tables
from privot.local.classes.expectation import em_step, expectation, normalized
from privot.local.classes.marginals import stacked_marginals
from privot.local.classes.product_mixture import LatentClasses

_PARTS = 10  # a tenth of the people is held out at a time
_FIRST_START = 100  # folds start from others than the final fits
_ENOUGH_HELD_OUT = 20_000  # held-out people at which one fold decides as well as five


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
    strengths: tuple[float, ...] = (1.0, 0.3, 3.0, 10.0, 30.0)
    starts: int = 3
    reach: float = 3.0
    max_passes: int = 300
    check_every: int = 10
    patience: int = 3

    def __post_init__(self) -> None:
        numbers = (self.starts, self.max_passes, self.check_every, self.patience)
        if min(*numbers, *self.class_counts) < 1 or not min(self.strengths, default=0) > 0:
            raise PrivotError(f"settings are {self!r}: give positive numbers, and a strength")
        if not self.reach >= 0:
            raise PrivotError(
                f"reach is {self.reach!r}: give a number of standard errors, 0 or more"
            )


@dataclass(frozen=True)
class Trial:
    """A setting, its best number of passes, and its gain over independence in nats a held-out report."""

    num_classes: int
    strength: float
    passes: int
    gain: float
    standard_error: float


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
    chosen = settings or LatentClassSettings()
    tables = count_tables(groups, sizes)
    marginals = stacked_marginals(tables)
    return refit(tables, marginals, choose(tables, chosen, seed), chosen, seed)


def choose(tables: CountTables, settings: LatentClassSettings, seed: int) -> tuple[Trial, ...]:
    """The settings to average, best first; `INDEPENDENCE` alone if none is clearly better."""
    folds = _folds(tables, seed) if _sees_pairs(tables) else []
    if not folds:
        return (INDEPENDENCE,)
    base = settings.strengths[0]
    numbers = [count for count in settings.class_counts if count > 1]
    if not numbers:
        return (INDEPENDENCE,)
    scores = _climb(folds, [(number, base) for number in numbers], [], 2, settings, seed)
    number = _best(scores).trial.num_classes
    for others in (
        sorted(strength for strength in settings.strengths if strength > base),
        sorted((strength for strength in settings.strengths if strength < base), reverse=True),
    ):
        pairs = [(number, strength) for strength in others]
        scores = _climb(folds, pairs, scores, 1, settings, seed)
    strength = _best(scores).trial.strength
    if strength != base:
        place = numbers.index(number)
        near = numbers[max(place - 1, 0) : place] + numbers[place + 1 : place + 2]
        pairs = [(neighbor, strength) for neighbor in near]
        scores = _climb(folds, pairs, scores, 2, settings, seed)
    best = _best(scores)
    if best.trial.gain <= 2 * best.trial.standard_error:
        return (INDEPENDENCE,)
    kept = [score.trial for score in scores if _within(settings.reach, score, best)]
    return tuple(sorted(kept, key=lambda trial: -trial.gain))


def refit(
    tables: CountTables,
    marginals: Array,
    trials: Sequence[Trial],
    settings: LatentClassSettings,
    seed: int,
) -> LatentClasses:
    """Every trial's setting fitted to all reports from several starts, averaged."""
    models = []
    for trial in trials:
        starts = 1 if trial.num_classes == 1 else settings.starts
        for start in range(starts):
            p, weights = random_start(
                marginals, tables, trial.num_classes, seed, _FIRST_START + start
            )
            p, weights = ascend(tables, marginals, p, weights, trial.strength, trial.passes)
            columns = np.split(p, tables.offsets[1:-1])
            models.append(LatentClasses(weights, tuple(columns)))
    return LatentClasses.average(models)


def random_start(
    marginals: Array, tables: CountTables, num_classes: int, seed: int, start: int
) -> tuple[Array, Array]:
    """Equal weights and the marginals times log-normal noise; one class is the marginals."""
    weights = np.full(num_classes, 1 / num_classes)
    if num_classes == 1:
        return marginals, weights
    noise = np.random.default_rng([seed, num_classes, start])
    factors = np.exp(noise.standard_normal((len(marginals), num_classes)))
    return normalized(marginals * factors, tables), weights


def ascend(
    tables: CountTables, prior: Array, p: Array, weights: Array, strength: float, passes: int
) -> tuple[Array, Array]:
    """`passes` EM steps: probabilities (categories, classes) and weights (classes,)."""
    for _ in range(passes):
        p, found = em_step(tables, p, weights, strength * prior)
        weights = found.classes + 1.0
        weights = weights / weights.sum()
    return p, weights


def _sees_pairs(tables: CountTables) -> bool:
    """Whether any report is about more than one column; else only marginals are identified."""
    widths = np.diff(tables.factor_start)
    return bool(tables.several_report.size or (widths[np.diff(tables.alone_start) > 0] > 1).any())


def _folds(tables: CountTables, seed: int) -> list[_Fold]:
    tenth = tables.num_people / _PARTS
    number = int(np.clip(np.ceil(_ENOUGH_HELD_OUT / max(tenth, 1.0)), 1, 5))
    folds = []
    for held_out in tables.held_out(number, _PARTS, np.random.default_rng([seed, 0])):
        training = tables.with_counts(tables.counts - held_out.counts)
        if held_out.num_people and training.num_people:
            marginals = stacked_marginals(training, tolerance=1e-5)
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
    settings: LatentClassSettings,
    seed: int,
) -> list[_Score]:
    """`scores` and those of (classes, strength) in turn, until `patience` in a row are out of reach."""
    scores, beyond = list(scores), 0
    for num_classes, strength in pairs:
        score = _try(folds, num_classes, strength, settings, seed)
        scores.append(score)
        beyond = 0 if _within(settings.reach, score, _best(scores)) else beyond + 1
        if beyond == patience:
            break
    return scores


def _try(
    folds: list[_Fold],
    num_classes: int,
    strength: float,
    settings: LatentClassSettings,
    seed: int,
) -> _Score:
    """One setting on all folds in step, until the held-out gain has stopped growing."""
    seen = [fold.held_out.counts > 0 for fold in folds]
    people = np.concatenate([f.held_out.counts[kept] for f, kept in zip(folds, seen, strict=True)])
    states = [
        random_start(fold.marginals, fold.training, num_classes, seed, number)
        for number, fold in enumerate(folds)
    ]
    best: _Score | None = None
    every = settings.check_every
    for passes in range(every, settings.max_passes + every, every):
        parts = []
        for i, fold in enumerate(folds):
            states[i] = ascend(fold.training, fold.marginals, *states[i], strength, every)
            found = expectation(fold.held_out, *states[i])
            parts.append((found.log_likelihood - fold.baseline)[seen[i]])
        gains = np.concatenate(parts)
        mean, error = _mean_and_error(gains, people)
        if best is None or mean > best.trial.gain:
            best = _Score(Trial(num_classes, strength, passes, mean, error), gains, people)
        elif passes - best.trial.passes >= settings.patience * every:
            break
    assert best is not None  # max_passes is at least 1
    return best

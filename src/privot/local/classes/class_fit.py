r"""Fitting latent classes to releases of tables: EM, settings chosen by held-out reports, an ensemble.

**Objective.** The reports' exact log-likelihood (`expectation`) plus the log density of a prior,

$$ \sum n \ln L + α \sum_c \sum_{v,z} m_c(v) \ln p_c(v|z) + \sum_z \ln π_z , $$

a Dirichlet prior on every class's columns, centered on the columns' maximum-likelihood marginals $m_c$
with the strength α of so many people, and one person per class. An EM step adds the prior to the
expected counts and normalizes; the objective never falls. It has many maxima, and those of many classes
fit the noise, so the number of passes is a setting too, as it is in Richardson–Lucy deconvolution.

**Choice** (`choose_trials`). Reports are private already, so held-out ones cost no privacy. Up to five
disjoint tenths of the people are held out in turn (fewer when each is large); a setting's score is the
mean gain in log-likelihood of a held-out report over independence. A fold is fitted to the other reports
alone, its prior's marginals included: marginals of all of them would leak the held-out ones, which at
small ε is more than any dependence is worth.

For each kind of prior (`Prior`), numbers of classes are tried upward until two in a row are out of reach
of the best, then strengths at the best number, then its neighbors at a better strength; passes by early
stopping, all folds in step. Where dependence is obvious, two folds decide as well as five, and later
kinds are tried with numbers next to the best so far. A best score under two of its standard errors means
that the reports show no dependence: one class. (The best of a dozen or two is somewhat lucky.)
Every setting within three standard errors (of the paired difference, report by report) of the best is
retained: which of them is best is not known.

**Relevance** (`relevance`). One strength for all columns is too little for those that depend on nothing,
whose classes learn noise, and too much for those that determine the class. So a column has a factor of
its own: of a few classes fitted to most people, its tables $p_c(·|z)$ are shrunk towards their marginal,

$$ (1 − s)\, p_c(v|z) + s\, m_c(v) , $$

by the mean s with held-out reports' likelihood as weight (its maximum alone would be noise where they
have little information). A prior of α people among $n_c$ in a class shrinks by $s = α / (α + n_c)$, so
the strength becomes $n_c\, s/(1−s)$, between one person and a thousand.

**Ensemble** (`fit_ensemble`). Every retained setting is fitted to all reports from several starts, and
the distributions are averaged: log-likelihood is concave in the distribution, so the average is at least
as good as its members are on average. What differs between local maxima is mostly noise.

**A fit** (`fit_classes`) counts the reports (`counts`), gives numbers in several alphabets curves and
bumps (`curves`), chooses settings, fits the ensemble, and rakes it: a mixture of split reports to the
columns' own marginals, unbiased there, and one of joint reports towards shrunk ones (`marginals`).
For joint reports the classes' own marginals are better than those under independence, which are biased
where the columns of a report depend.

Everything is a function of the release: post-processing.

References:
    Dempster, Laird, Rubin (1977); Smyth, *Model selection for probabilistic clustering using
    cross-validated likelihood* (2000); Vermunt et al., *Multiple imputation of incomplete categorical
    data using latent class analysis* (2008).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from privot.core.errors import PrivotError
from privot.core.processes import map_threads
from privot.local.classes.counts import Array, CountTables, count_releases, count_tables
from privot.local.classes.curves import pieces_of_columns, place_mass_points
from privot.local.classes.expectation import ascend, expectation, random_start
from privot.local.classes.marginals import rake, shrink_marginals, stacked_marginals
from privot.local.classes.mixture import LatentClasses, LatentClassSampler
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.training import FitMonitor

_RELEVANCE_CLASSES, _RELEVANCE_PASSES = 8, 60
_RELEVANCE_FOLDS, _RELEVANCE_PARTS = 3, 10
_MAX_STRENGTH = 1000.0
_SHRINKAGES = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97])
_HELD_OUT_PARTS = 10  # a tenth of the people is held out at a time
_SIGNIFICANT = 2.0  # standard errors from which on dependence is accepted
_FEW_FOLDS, _OBVIOUS = 2, 15.0  # folds that are enough where dependence is so many standard errors
_SCOUT_CLASSES = 4  # number of classes by which that is decided
_MIN_NATS = 2.0  # of all held-out reports: independence itself is known no better
_MIN_HELD_OUT = 20_000  # held-out people at which one fold decides as well as five
_FIRST_START = 100  # final fits start elsewhere than the folds
_HEAVY = 0.6  # share of the people in one interval, from which on the fit warns


@dataclass(frozen=True)
class LatentClassSettings:
    """Settings to try, and stopping rules.

    Arguments:
        class_counts: Numbers of classes, increasing; 1 (independence) is always tried.
        strengths: α; the first is used while the number of classes is chosen.
        starts: Fits of each retained setting that are averaged.
        reach: Standard errors below the best within which a setting is retained.
        max_passes: Most EM steps; the best number is chosen too.
        check_every: EM steps between evaluations on the held-out reports.
        patience: Evaluations without improvement until a setting's fit ends.

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


SETTINGS = LatentClassSettings()
# Where classes lie along a number, one person of the prior in each blurs them much.
CURVE_SETTINGS = LatentClassSettings(
    class_counts=(4, 8, 16, 32), strengths=(0.1, 1.0, 3.0, 10.0, 30.0)
)
# With a strength for each column.
RELEVANCE_SETTINGS = LatentClassSettings(class_counts=(4, 8, 16, 24, 32), strengths=(0.1, 0.3, 1.0))


def relevance(tables: CountTables, marginals: Array, seed: int) -> Array:
    """Estimate a factor of the prior's strength for each piece (pieces, 1), equal within a column.

    Ones where no report is about two columns: held-out reports have no information on dependence then.
    """
    if not tables.has_pairs:
        return np.ones_like(marginals)
    columns = tables.sizes.size
    gains, people = np.zeros((columns, len(_SHRINKAGES))), np.zeros(columns)
    rng = np.random.default_rng([seed, 2])
    for fold, drawn in enumerate(tables.held_out(_RELEVANCE_FOLDS, _RELEVANCE_PARTS, rng)):
        training, held_out = tables.with_counts(tables.counts - drawn.counts).sent(), drawn.sent()
        own = stacked_marginals(training, start=marginals, tolerance=1e-5)
        at = random_start(own, training, _RELEVANCE_CLASSES, seed, fold)
        p, weights = ascend(training, own, *at, 1.0, _RELEVANCE_PASSES)
        for column in range(columns):
            part = slice(*tables.offsets[column : column + 2])
            for number, share in enumerate(_SHRINKAGES):
                shrunk = p.copy()
                shrunk[part] = (1 - share) * p[part] + share * own[part]
                found = expectation(held_out, shrunk, weights)
                gains[column, number] += found.total(held_out.counts)
        cells = expectation(training, p, weights).cells.sum(axis=1)
        people += np.add.reduceat(cells, tables.offsets[:-1]) / (
            _RELEVANCE_FOLDS * _RELEVANCE_CLASSES
        )
    likelihood = np.exp(gains - gains.max(axis=1, keepdims=True))
    share = likelihood @ _SHRINKAGES / likelihood.sum(axis=1)
    strength = np.clip(people * share / (1 - share), 1.0, _MAX_STRENGTH)
    return strength[tables.columns, None]


@dataclass(frozen=True)
class Trial:
    """A setting, its best number of passes, and its gain over independence in nats per held-out report.

    `prior` is the number of the prior among those tried.
    """

    num_classes: int
    strength: float
    passes: int
    gain: float
    standard_error: float
    prior: int = 0


@dataclass(frozen=True, eq=False)
class Prior:
    """One kind of prior on classes' columns, centered on the marginals, and settings to try."""

    factors: Array  # factors of the strength for each piece (pieces, 1), equal within a column
    settings: LatentClassSettings  # class numbers and strengths


def describe_dependence(trials: Sequence[Trial]) -> str:
    """Describe the dependence that held-out reports show, given the settings to average, best first."""
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
    people: Array  # counts of people who sent it


@dataclass(frozen=True, eq=False)
class _Search:
    """Cross-validation of settings with one kind of prior."""

    folds: list[_Fold]
    priors: Sequence[Prior]
    number: int  # of the prior that is tried
    seed: int
    monitor: FitMonitor

    def scores(self, around: int | None) -> list[_Score]:
        """Try numbers of classes, then strengths at the best number, then its neighbors.

        With `around`, only numbers next to it are tried.
        """
        settings = self.priors[self.number].settings
        base = settings.strengths[0]
        numbers = [count for count in settings.class_counts if count > 1]
        if around is not None:
            distances = np.abs(np.searchsorted(numbers, around) - np.arange(len(numbers)))
            numbers = [n for n, far in zip(numbers, distances.tolist(), strict=True) if far <= 1]
        if not numbers or (self.number and self.monitor.over()):
            return []
        scores = self._try_in_turn([(number, base) for number in numbers], [], 2)
        number = _best(scores).trial.num_classes
        stronger = sorted(strength for strength in settings.strengths if strength > base)
        weaker = sorted(strength for strength in settings.strengths if strength < base)[::-1]
        for strengths in (stronger, weaker):
            scores = self._try_in_turn([(number, each) for each in strengths], scores, 1)
        strength = _best(scores).trial.strength
        if strength != base:
            place = numbers.index(number)
            near = numbers[max(place - 1, 0) : place] + numbers[place + 1 : place + 2]
            scores = self._try_in_turn([(each, strength) for each in near], scores, 2)
        return scores

    def _try_in_turn(
        self, pairs: list[tuple[int, float]], scores: list[_Score], patience: int
    ) -> list[_Score]:
        """Add scores of (classes, strength) in turn, until `patience` in a row are out of reach."""
        each = [prior.settings for prior in self.priors]
        most = sum(len(one.class_counts) + len(one.strengths) + 1 for one in each)
        scores, beyond = list(scores), 0
        for num_classes, strength in pairs:
            if scores and self.monitor.over():
                break
            score = self.cross_validate(num_classes, strength)
            scores.append(score)
            ahead = max(0, most - len(scores)) + each[0].starts
            self.monitor.step(ahead, loss=-_best(scores).trial.gain)
            beyond = 0 if _within(each[self.number].reach, score, _best(scores)) else beyond + 1
            if beyond == patience:
                break
        return scores

    def cross_validate(self, num_classes: int, strength: float) -> _Score:
        """Fit one setting to all folds in step, until the held-out gain stops growing."""
        people = np.concatenate([fold.held_out.counts for fold in self.folds])
        prior = self.priors[self.number]
        every = prior.settings.check_every
        states = [
            random_start(fold.marginals, fold.training, num_classes, self.seed, number)
            for number, fold in enumerate(self.folds)
        ]
        best: _Score | None = None

        def advance(fold: _Fold, state: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
            state = ascend(fold.training, fold.marginals * prior.factors, *state, strength, every)
            return state, expectation(fold.held_out, *state).log_likelihood - fold.baseline

        for passes in range(every, prior.settings.max_passes + every, every):
            found = list(map_threads(advance, zip(self.folds, states, strict=True)))
            states = [state for state, _ in found]
            gains = np.concatenate([gain for _, gain in found])
            mean, error = _mean_and_error(gains, people)
            if best is None or mean > best.trial.gain:
                trial = Trial(num_classes, strength, passes, mean, error, self.number)
                best = _Score(trial, gains, people)
            elif passes - best.trial.passes >= prior.settings.patience * every:
                break
            if self.monitor.over():
                break
        assert best is not None  # max_passes is at least 1
        return best


def choose_trials(
    tables: CountTables, marginals: Array, priors: Sequence[Prior], seed: int, monitor: FitMonitor
) -> tuple[Trial, ...]:
    """Choose the settings to average, best first; `INDEPENDENCE` alone if none is clearly better."""
    folds = _folds(tables, marginals, seed) if tables.has_pairs else []
    if not folds:
        return (INDEPENDENCE,)
    few = folds[:_FEW_FOLDS]
    scout = _Search(few, priors, 0, seed, monitor).cross_validate(
        _SCOUT_CLASSES, priors[0].settings.strengths[0]
    )
    obvious = scout.trial.gain > _OBVIOUS * scout.trial.standard_error
    scores: list[_Score] = []
    for number in range(len(priors)):
        around = _best(scores).trial.num_classes if scores and obvious else None
        search = _Search(few if obvious else folds, priors, number, seed, monitor)
        scores += search.scores(around)
    if not scores:
        return (INDEPENDENCE,)
    best = _best(scores)
    least = max(_SIGNIFICANT * best.trial.standard_error, _MIN_NATS / best.people.sum())
    if best.trial.gain <= least:
        return (INDEPENDENCE,)
    reach = priors[0].settings.reach
    retained = [score.trial for score in scores if _within(reach, score, best)]
    return tuple(sorted(retained, key=lambda trial: -trial.gain))


def _folds(tables: CountTables, start: Array, seed: int) -> list[_Fold]:
    tenth = tables.counts.sum() / _HELD_OUT_PARTS
    number = int(np.clip(np.ceil(_MIN_HELD_OUT / max(tenth, 1.0)), 1, 5))
    folds = []
    for drawn in tables.held_out(number, _HELD_OUT_PARTS, np.random.default_rng([seed, 0])):
        training, held_out = tables.with_counts(tables.counts - drawn.counts).sent(), drawn.sent()
        if held_out.counts.size and training.counts.size:
            marginals = stacked_marginals(training, start=start, tolerance=1e-5)
            baseline = expectation(held_out, marginals, np.ones(1)).log_likelihood
            folds.append(_Fold(training, held_out, marginals, baseline))
    return folds


def _best(scores: list[_Score]) -> _Score:
    return max(scores, key=lambda score: score.trial.gain)


def _within(reach: float, score: _Score, best: _Score) -> bool:
    """Say whether `score` trails `best` by at most `reach` standard errors of the paired difference."""
    mean, error = _mean_and_error(best.gains - score.gains, best.people)
    return mean <= reach * error


def _mean_and_error(values: Array, people: Array) -> tuple[float, float]:
    total = people.sum()
    mean = float(people @ values / total)
    return mean, float(np.sqrt(people @ (values - mean) ** 2) / total)


def fit_ensemble(
    tables: CountTables,
    marginals: Array,
    priors: Sequence[Prior],
    trials: Sequence[Trial],
    seed: int,
    monitor: FitMonitor,
) -> LatentClasses:
    """Fit every trial's setting to all reports from several starts, and average."""

    def fitted(trial: Trial, start: int) -> tuple[Array, Array]:
        number = _FIRST_START + start
        p, weights = random_start(marginals, tables, trial.num_classes, seed, number)
        prior = marginals * priors[trial.prior].factors
        return ascend(tables, prior, p, weights, trial.strength, trial.passes)

    starts = [
        (trial, start)
        for trial in trials
        for start in range(1 if trial.num_classes == 1 else priors[trial.prior].settings.starts)
    ]
    if monitor.over():
        starts = starts[:1]
    models: list[LatentClasses] = []
    for p, weights in map_threads(fitted, starts):
        monitor.step(len(starts) - len(models) - 1)
        models.append(LatentClasses(weights, tuple(np.split(p, tables.offsets[1:-1]))))
    return LatentClasses.average(models)


def fit_classes(
    releases: Releases,
    seed: int,
    monitor: FitMonitor | None = None,
    trials: Sequence[Trial] | None = None,
) -> LocalModel:
    """Fit a model whose sampler is a mixture of product distributions.

    Arguments:
        releases: The reports.
        seed: Seed of the starts and of what is held out.
        monitor: Informed of every setting and every fit, if given; checked between passes.
        trials: Settings to average; chosen by held-out reports by default.
    """
    monitor = monitor or FitMonitor()
    atoms, columns = releases.atoms.values(), releases.schema.coded.values()
    queries, groups = count_releases(releases)
    pieces, queries = pieces_of_columns([*atoms], queries, groups)
    places, laws = zip(*map(place_mass_points, columns, atoms, pieces), strict=True)
    tables = count_tables(groups, [each.shares.size for each in pieces], queries)
    curved = any(each.curve is not None for each in pieces)
    split = all(randomizer.joint is None for randomizer in releases.randomizers)
    known = np.concatenate([each.shares for each in pieces])[:, None]
    marginals = stacked_marginals(tables, start=known, tolerance=1e-5 if curved else 1e-7)
    factors = relevance(tables, marginals, seed)
    if curved:
        priors = [Prior(factors, CURVE_SETTINGS)]
    else:
        priors = [Prior(np.ones_like(marginals), SETTINGS), Prior(factors, RELEVANCE_SETTINGS)]
    if trials is None:
        trials = choose_trials(tables, marginals, priors, seed, monitor)
    dependence = describe_dependence(trials)
    mixture = fit_ensemble(tables, marginals, priors, trials, seed, monitor)
    if split:
        mixture = rake(mixture, np.split(marginals[:, 0], tables.offsets[1:-1]))
    elif not curved:
        orders = [np.zeros(0, int) if each.cells is None else each.cells.in_order for each in atoms]
        mixture = shrink_marginals(mixture, tables, queries, orders)
    sampler = LatentClassSampler(mixture.refined(laws), places, releases.schema)
    _warn_of_heavy_atoms(sampler)
    made_with = {
        "estimator": "latent_classes",
        "loss": "exact likelihood",
        "seed": seed,
        "classes": len(mixture.weights),
        "dependence": dependence,
        "averaged": [asdict(trial) for trial in trials],
        "num_reports": len(releases),
    }
    return LocalModel.of(releases, sampler, made_with)


def fit_again(model: LocalModel, releases: Releases, seed: int) -> LocalModel:
    """Fit other reports by the settings that were chosen for `model`, of latent classes."""
    trials = [Trial(**each) for each in model.made_with["averaged"]]
    return fit_classes(releases, seed, trials=trials)


def _warn_of_heavy_atoms(sampler: LatentClassSampler) -> None:
    """Warn of numbers that have most people in one interval, within which nothing is known."""
    for index, (name, column) in enumerate(sampler.schema.coded.items()):
        cells = sampler.places[index].cells
        if cells is None or column.alphabet.spikes:
            continue
        shares = sampler.atoms.probabilities[index] @ sampler.atoms.weights
        atom = int(shares.argmax())
        low, high = cells.low[atom], cells.high[atom]
        if shares[atom] > _HEAVY and high - low > float(cells.integer):
            label = column.labels[int(sampler.places[index].codes[atom])]
            warnings.warn(
                f"column {name!r}: {shares[atom]:.0%} of the people are in one interval of {label}, and "
                "nothing is known of where in it: declare a value that many share as one of its spikes, "
                "or finer bins there, which privot schema new --pilot finds for the next reports",
                stacklevel=4,
            )

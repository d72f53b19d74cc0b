r"""Fit of latent classes to releases of tables: EM, cross-validated settings, and an ensemble.

The categories v of a column are its **pieces** (`marginals`): atoms (`privot.local.releases`), or bumps
of a curve over several atoms. After the fit, they are mapped to **places**: atoms and mass points.

**Objective.** The reports' exact log-likelihood (`expectation`) plus the log density of a prior,

$$ \sum n \ln L + α \sum_c \sum_{v,z} m_c(v) \ln p_c(v|z) + \sum_z \ln π_z . $$

The prior is a Dirichlet distribution. For every column of every class it has α pseudo-counts (the
**strength**), distributed as the column's maximum-likelihood marginal $m_c$; for every class it has one
pseudo-count. An EM step adds these to the expected counts and normalizes, which never lowers the
objective. The objective has many maxima, and with many classes they fit noise, so the number of EM steps
(**passes**) is a setting too (early stopping).

**Cross-validation** (`choose_trials`). Reports are private already, so held-out reports cost no privacy.
Up to five disjoint tenths of the people are held out in turn (fewer for large releases). The score of a
setting is the mean log-likelihood of held-out reports minus its value under independence. The marginals
$m_c$ are estimated from each fold's training reports alone: otherwise the bias at small ε would exceed
the gain from modeling dependence.

For each kind of prior (`Prior`), the number of classes is increased until two scores in a row are
clearly below the best. Then the strength is varied for the best number, then the number for the best
strength. The number of passes is chosen by early stopping, the same for all folds. If dependence is
obvious, two folds are used instead of five, and later priors are tried only with numbers of classes near
the best so far. If the best score is less than two standard errors above 0, the reports show no
dependence, and one class is used. All settings whose scores are within three standard errors of the
best (of the paired difference over reports) are retained, since their order is not known.

**Relevance** (`relevance`). A single strength is too small for columns that are independent of the
others, whose tables fit noise, and too large for columns that determine the class. So the strength of
every column has its own factor. In a fit of a few classes, the column's tables $p_c(·|z)$ are shrunk
towards its marginal,

$$ (1 − s)\, p_c(v|z) + s\, m_c(v) , $$

and s is averaged over a grid with the likelihood of held-out reports as weights, because the most likely
s is unstable if there is little information. A prior of α people among $n_c$ in a class shrinks by
$s = α / (α + n_c)$, so the strength is $n_c\, s/(1−s)$, clipped to between one and a thousand people.

**Ensemble** (`fit_ensemble`). Every retained setting is fitted to all reports from several starts,
and the distributions are averaged. All starts but one are the fits of folds, which need only a few more
passes (a fit by given settings has none). Log-likelihood is concave in the distribution, so the average
is at least as good as its members are on average. Differences between local maxima are mostly noise.

**Raking** (`marginals`). A mixture of split reports is raked to the columns' marginals, which are
unbiased. A mixture of joint reports is raked towards shrunk marginals, because marginals estimated under
independence are biased.

Privacy: everything is a function of the release, hence post-processing.

References:
    Dempster, Laird, Rubin (1977); Smyth, *Model selection for probabilistic clustering using
    cross-validated likelihood* (2000); Vermunt et al., *Multiple imputation of incomplete categorical
    data using latent class analysis* (2008).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from privot.core.errors import PrivotError
from privot.core.processes import map_threads
from privot.local.classes.counts import Array, CountTables, count_releases, count_tables
from privot.local.classes.expectation import ascend, expectation, random_start
from privot.local.classes.marginals import (
    pieces_of_columns,
    place_mass_points,
    rake,
    shrink_marginals,
    stacked_marginals,
)
from privot.local.classes.mixture import LatentClasses, LatentClassSampler
from privot.local.model import LocalModel
from privot.local.releases import Releases
from privot.training import FitMonitor, Progress

_RELEVANCE_CLASSES, _RELEVANCE_PASSES = 8, 30  # of the fits by which relevance is estimated
_RELEVANCE_FOLDS, _RELEVANCE_PARTS = 3, 10  # each fold holds out one in ten people
_MAX_STRENGTH = 1000.0  # largest strength of the prior for one column, in people
_SHRINKAGES = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97])  # grid of s
_MAX_FOLDS, _HELD_OUT_PARTS = 5, 10  # each fold holds out one in ten people
_SIGNIFICANT = 2.0  # standard errors by which the best score must exceed 0
_MIN_NATS = 2.0  # nats by which the held-out reports' total gain must exceed 0
# Two folds are used if the score of four classes exceeds 15 standard errors.
_FEW_FOLDS, _SCOUT_CLASSES, _OBVIOUS = 2, 4, 15.0
_MIN_HELD_OUT = 20_000  # number of held-out people for which one fold suffices
_FIRST_START = 100  # added to the starts of final fits, so that their seeds differ from the folds'


@dataclass(frozen=True)
class LatentClassSettings:
    """Settings that cross-validation tries, and its stopping rules.

    Raises:
        PrivotError: if a number is not positive, or `reach` is negative.
    """

    class_counts: tuple[int, ...] = (2, 4, 8, 16, 24, 32)  # increasing; 1 is always tried
    # Values of α; the first is used while the number of classes is chosen.
    strengths: tuple[float, ...] = (1.0, 0.3, 3.0, 10.0)
    starts: int = 3  # fits of each retained setting
    reach: float = 3.0  # standard errors by which a retained setting may be below the best
    max_passes: int = 80  # most passes; the best number up to it is chosen
    check_every: int = 5  # passes between evaluations on the held-out reports
    patience: int = 3  # evaluations without improvement after which a setting's fit ends

    def __post_init__(self) -> None:
        numbers = (self.starts, self.max_passes, self.check_every, self.patience)
        if min(*numbers, *self.class_counts) < 1 or not min(self.strengths, default=0) > 0:
            raise PrivotError(f"settings are {self!r}: give positive numbers, and a strength")
        if not self.reach >= 0:
            raise PrivotError(
                f"reach is {self.reach!r}: give a number of standard errors, 0 or more"
            )


State = tuple[Array, Array]  # probabilities (pieces, classes) and weights (classes,) of a fit

SETTINGS = LatentClassSettings()
# With curves, even a prior of one person smooths classes much, so the first strength is smaller.
CURVE_SETTINGS = LatentClassSettings(
    class_counts=(4, 8, 16, 32), strengths=(0.1, 1.0, 3.0, 10.0, 30.0)
)
# For priors with a factor for each column.
RELEVANCE_SETTINGS = LatentClassSettings(class_counts=(4, 8, 16, 24, 32), strengths=(0.1, 0.3, 1.0))


@dataclass(frozen=True)
class Trial:
    """Setting of a fit, with its best number of passes and its score."""

    num_classes: int
    strength: float  # α
    passes: int  # number of passes
    gain: float  # score: gain over independence, in nats per held-out report
    standard_error: float  # standard error of the gain
    prior: int = 0  # index in the list of priors


INDEPENDENCE = Trial(num_classes=1, strength=1.0, passes=0, gain=0.0, standard_error=0.0)


@dataclass(frozen=True, eq=False)
class Prior:
    """Dirichlet prior centered on the marginals, and the settings to try with it."""

    factors: Array  # factor of the strength for each piece (pieces, 1), the same within a column
    settings: LatentClassSettings


def relevance(tables: CountTables, marginals: Array, seed: int) -> Array:
    """Estimate the factor of the prior's strength for each column, repeated for its pieces (pieces, 1).

    All factors are 1 if no report is about two columns, since dependence is not identified then.
    """
    if not tables.has_pairs:
        return np.ones_like(marginals)
    num_columns = tables.sizes.size
    logs = np.zeros((num_columns, len(_SHRINKAGES)))  # held-out log-likelihood for each s
    people_per_class = np.zeros(num_columns)  # mean of n_c over classes and folds
    rng = np.random.default_rng([seed, 2])
    splits = tables.splits(_RELEVANCE_FOLDS, _RELEVANCE_PARTS, rng)
    for fold, (training, held_out) in enumerate(splits):
        means = stacked_marginals(training, start=marginals, tolerance=1e-5)
        start = random_start(means, training, _RELEVANCE_CLASSES, seed, fold)
        p, weights = ascend(training, means, *start, 1.0, _RELEVANCE_PASSES)
        for column in range(num_columns):
            rows = slice(*tables.offsets[column : column + 2])
            for number, shrinkage in enumerate(_SHRINKAGES):
                shrunk = p.copy()
                shrunk[rows] = (1 - shrinkage) * p[rows] + shrinkage * means[rows]
                expected = expectation(held_out, shrunk, weights)
                logs[column, number] += expected.total(held_out.counts)
        counts = expectation(training, p, weights).cells.sum(axis=1)
        people = np.add.reduceat(counts, tables.offsets[:-1])
        people_per_class += people / (_RELEVANCE_FOLDS * _RELEVANCE_CLASSES)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    shrinkages = likelihood @ _SHRINKAGES / likelihood.sum(axis=1)
    strengths = np.clip(people_per_class * shrinkages / (1 - shrinkages), 1.0, _MAX_STRENGTH)
    return strengths[tables.columns, None]


def describe_dependence(trials: Sequence[Trial]) -> str:
    """Describe in words the gain of the best trial, the first one, on held-out reports."""
    best = trials[0]
    if best.num_classes == 1:
        return "independence: the reports show no dependence"
    gain, error = f"{best.gain:.2g}", f"{best.standard_error:.1g}"
    return f"classes: {gain} ± {error} nats a held-out report better than independence"


def fit_classes(
    releases: Releases,
    seed: int,
    monitor: FitMonitor | None = None,
    trials: Sequence[Trial] | None = None,
) -> LocalModel:
    """Fit a model whose sampler is a mixture of product distributions.

    Arguments:
        releases: Releases whose columns are all reported as codes.
        seed: Seed of the starts and of cross-validation.
        monitor: Progress, time limit and interruption of the fit; none by default.
        trials: Settings to average; by default chosen by cross-validation.
    """
    atoms, columns = releases.atoms.values(), releases.schema.coded.values()
    queries, groups = count_releases(releases)
    pieces, queries = pieces_of_columns([*atoms], queries, groups)
    places, laws = zip(*map(place_mass_points, columns, atoms, pieces), strict=True)
    tables = count_tables(groups, [part.shares.size for part in pieces], queries)
    curved = any(part.curve is not None for part in pieces)
    split = all(randomizer.joint is None for randomizer in releases.randomizers)
    start = np.concatenate([part.shares for part in pieces])[:, None]
    marginals = stacked_marginals(tables, start=start, tolerance=1e-5 if curved else 1e-7)
    factors = ones = np.ones_like(marginals)
    if trials is None or any(trial.num_classes > 1 for trial in trials):
        factors = relevance(tables, marginals, seed)  # one class has the marginals, by any prior
    if curved:
        priors = [Prior(factors, CURVE_SETTINGS)]
    else:
        priors = [Prior(ones, SETTINGS), Prior(factors, RELEVANCE_SETTINGS)]
    if trials is None:
        fits = choose_trials(tables, marginals, priors, seed, monitor or FitMonitor())
    else:
        fits = {trial: [] for trial in trials}
    dependence = describe_dependence([*fits])
    mixture = fit_ensemble(tables, marginals, priors, fits, seed, monitor)
    if split:
        mixture = rake(mixture, np.split(marginals[:, 0], tables.offsets[1:-1]))
    elif not curved:
        cells = [column_atoms.cells for column_atoms in atoms]
        orders = [np.zeros(0, int) if line is None else line.in_order for line in cells]
        mixture = shrink_marginals(mixture, tables, queries, orders)
    sampler = LatentClassSampler(mixture.refined(laws), places, releases.schema)
    sampler.warn_of_heavy_intervals()
    made_with = {
        "estimator": "latent_classes",
        "loss": "exact likelihood",
        "seed": seed,
        "classes": len(mixture.weights),
        "dependence": dependence,
        "averaged": [*map(asdict, fits)],
        "num_reports": len(releases),
    }
    return LocalModel.of(releases, sampler, made_with)


def fit_again(
    model: LocalModel, releases: Releases, seed: int, progress: Progress | None = None
) -> LocalModel:
    """Fit latent classes to other reports, with the settings that were chosen for `model`."""
    trials = [Trial(**trial) for trial in model.made_with["averaged"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit of `model` has issued the same warnings
        return fit_classes(releases, seed, FitMonitor(progress=progress), trials)


def choose_trials(
    tables: CountTables, marginals: Array, priors: Sequence[Prior], seed: int, monitor: FitMonitor
) -> dict[Trial, list[State]]:
    """Choose the trials to average, best first, with the fits of folds.

    If none is clearly better, only `INDEPENDENCE` is returned.
    """
    folds = _folds(tables, marginals, seed) if tables.has_pairs else []
    if not folds:
        return {INDEPENDENCE: []}
    few_folds = folds[:_FEW_FOLDS]
    scout_search = _Search(few_folds, priors, 0, seed, monitor)
    scout = scout_search.cross_validate(_SCOUT_CLASSES, priors[0].settings.strengths[0]).trial
    obvious = scout.gain > _OBVIOUS * scout.standard_error
    scores: list[_Score] = []
    for prior in range(len(priors)):
        near = _best(scores).trial.num_classes if scores and obvious else None
        scores += _Search(few_folds if obvious else folds, priors, prior, seed, monitor).run(near)
    if not scores:
        return {INDEPENDENCE: []}
    best = _best(scores)
    min_gain = max(_SIGNIFICANT * best.trial.standard_error, _MIN_NATS / best.people.sum())
    if best.trial.gain <= min_gain:
        return {INDEPENDENCE: []}
    reach = priors[0].settings.reach
    retained = [score for score in scores if _within(reach, score, best)]
    retained.sort(key=lambda score: -score.trial.gain)
    return {score.trial: score.states for score in retained}


@dataclass(frozen=True, eq=False)
class _Fold:
    """Training and held-out reports of one fold of cross-validation."""

    training: CountTables
    held_out: CountTables
    marginals: Array  # estimated from the training reports (pieces, 1)
    baseline: Array  # ln L of the held-out reports under independence (reports,)


@dataclass(frozen=True, eq=False)
class _Score:
    """Trial, its fits, and the gains of single reports, whose mean is the trial's gain."""

    trial: Trial
    gains: Array  # gain of every distinct held-out report of all folds (reports,)
    people: Array  # number of people who sent each report (reports,)
    states: list[State]  # fit of each fold


def _folds(tables: CountTables, start: Array, seed: int) -> list[_Fold]:
    """Create one to five folds of the reports, fewer for more people; `start` has the marginals."""
    tenth = tables.counts.sum() / _HELD_OUT_PARTS
    count = int(np.clip(np.ceil(_MIN_HELD_OUT / max(tenth, 1.0)), 1, _MAX_FOLDS))
    rng, folds = np.random.default_rng([seed, 0]), []
    for training, held_out in tables.splits(count, _HELD_OUT_PARTS, rng):
        if held_out.counts.size and training.counts.size:
            marginals = stacked_marginals(training, start=start, tolerance=1e-5)
            baseline = expectation(held_out, marginals, np.ones(1)).log_likelihood
            folds.append(_Fold(training, held_out, marginals, baseline))
    return folds


@dataclass(frozen=True, eq=False)
class _Search:
    """Cross-validation of settings with one kind of prior."""

    folds: list[_Fold]
    priors: Sequence[Prior]
    prior: int  # index in `priors`
    seed: int
    monitor: FitMonitor

    def run(self, near: int | None) -> list[_Score]:
        """Score numbers of classes, then strengths at the best number, then numbers next to it.

        If `near` is given, only the numbers of classes next to it are tried.
        """
        settings = self.priors[self.prior].settings
        base = settings.strengths[0]
        class_counts = [count for count in settings.class_counts if count > 1]
        if near is not None:
            class_counts = _neighbors(class_counts, int(np.searchsorted(class_counts, near)))
        # The first prior is tried even if time is over, so that there is a score.
        if not class_counts or (self.prior > 0 and self.monitor.over()):
            return []
        scores: list[_Score] = []
        self._try_in_turn([(count, base) for count in class_counts], scores, 2)
        best_count = _best(scores).trial.num_classes
        stronger = sorted(strength for strength in settings.strengths if strength > base)
        weaker = sorted(strength for strength in settings.strengths if strength < base)[::-1]
        for strengths in (stronger, weaker):
            self._try_in_turn([(best_count, strength) for strength in strengths], scores, 1)
        best_strength = _best(scores).trial.strength
        if best_strength != base:
            neighbors = _neighbors(class_counts, class_counts.index(best_count))
            pairs = [(count, best_strength) for count in neighbors if count != best_count]
            self._try_in_turn(pairs, scores, 2)
        return scores

    def _try_in_turn(
        self, pairs: list[tuple[int, float]], scores: list[_Score], patience: int
    ) -> None:
        """Score `pairs` of a number of classes and a strength in turn, and append to `scores`.

        Stop when `patience` scores in a row are out of reach of the best, or time is over.
        """
        all_settings = [prior.settings for prior in self.priors]
        max_trials = sum(1 + len(tried.class_counts + tried.strengths) for tried in all_settings)
        out_of_reach = 0
        for num_classes, strength in pairs:
            if scores and self.monitor.over():
                break
            score = self.cross_validate(num_classes, strength)
            scores.append(score)
            steps_left = max(0, max_trials - len(scores)) + all_settings[0].starts
            self.monitor.step(steps_left, loss=-_best(scores).trial.gain)
            within = _within(all_settings[self.prior].reach, score, _best(scores))
            out_of_reach = 0 if within else out_of_reach + 1
            if out_of_reach == patience:
                break

    def cross_validate(self, num_classes: int, strength: float) -> _Score:
        """Score one setting: fit it to all folds until their mean held-out gain stops growing."""
        people = np.concatenate([fold.held_out.counts for fold in self.folds])
        prior = self.priors[self.prior]
        every = prior.settings.check_every
        states = [
            random_start(fold.marginals, fold.training, num_classes, self.seed, number)
            for number, fold in enumerate(self.folds)
        ]
        best: _Score | None = None

        def advance(fold: _Fold, state: State) -> tuple[State, Array]:
            state = ascend(fold.training, fold.marginals * prior.factors, *state, strength, every)
            return state, expectation(fold.held_out, *state).log_likelihood - fold.baseline

        for passes in range(every, prior.settings.max_passes + every, every):
            advanced = list(map_threads(advance, zip(self.folds, states, strict=True)))
            states = [state for state, _ in advanced]
            gains = np.concatenate([gain for _, gain in advanced])
            mean, error = _mean_and_error(gains, people)
            if best is None or mean > best.trial.gain:
                trial = Trial(num_classes, strength, passes, mean, error, self.prior)
                best = _Score(trial, gains, people, states)
            elif passes - best.trial.passes >= prior.settings.patience * every:
                break
            if self.monitor.over():
                break
        assert best is not None  # max_passes is at least 1
        return best


def _neighbors(numbers: list[int], index: int) -> list[int]:
    """Return the number at an index of a list, and those before and after it."""
    return numbers[max(index - 1, 0) : index + 2]


def _best(scores: list[_Score]) -> _Score:
    return max(scores, key=lambda score: score.trial.gain)


def _within(reach: float, score: _Score, best: _Score) -> bool:
    """Return whether `score` is at most `reach` standard errors of their difference below `best`."""
    mean, error = _mean_and_error(best.gains - score.gains, best.people)
    return mean <= reach * error


def _mean_and_error(values: Array, people: Array) -> tuple[float, float]:
    """Return the mean of values (reports,) weighted by people (reports,), and its standard error."""
    total = people.sum()
    mean = float(people @ values / total)
    return mean, float(np.sqrt(people @ (values - mean) ** 2) / total)


def fit_ensemble(
    tables: CountTables,
    marginals: Array,
    priors: Sequence[Prior],
    trials: Mapping[Trial, Sequence[State]],
    seed: int,
    monitor: FitMonitor | None,
) -> LatentClasses:
    """Fit the setting of every trial to all reports from several starts, and average the mixtures.

    The first start is random. The others are fits of folds, if `trials` has any, which continue for a
    quarter of the passes.
    """

    def fit_start(trial: Trial, start: State, passes: int) -> State:
        prior = marginals * priors[trial.prior].factors
        return ascend(tables, prior, *start, trial.strength, passes)

    starts = []
    for trial, states in trials.items():
        start = random_start(marginals, tables, trial.num_classes, seed, _FIRST_START)
        starts.append((trial, start, trial.passes))
        of_folds = states[: priors[trial.prior].settings.starts - 1]
        starts += [(trial, state, max(1, trial.passes // 4)) for state in of_folds]
    if monitor and monitor.over():
        starts = starts[:1]
    models: list[LatentClasses] = []
    for p, weights in map_threads(fit_start, starts):
        if monitor:
            monitor.step(len(starts) - len(models) - 1)
        models.append(LatentClasses(weights, tuple(np.split(p, tables.offsets[1:-1]))))
    return LatentClasses.average(models)

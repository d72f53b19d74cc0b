r"""Boosted densities inside a mollifier (MBDE), spending exactly ε.

Start at the public $q_0$. In round $t = 1 … T$ a classifier $c_t$, bounded by $\log 2$ **by
construction** (a bounded output layer, or clipped trees), learns to tell the data from draws of
$q_{t−1}$, and

$$ q_t ∝ q_{t−1} e^{θ_t c_t} , \qquad s = \sum_t θ_t c_t , \qquad |s| ≤ \log 2 \sum_t θ_t . $$

With $\sum_t θ_t ≤ ε/(4 \log 2)$ the tilt lies in $[−ε/4, ε/4]$, and not being normalized it makes
each draw ε-integrally private (`privot.integral.density`, $w = ε/2$).

**Coefficients.** The paper takes $θ_t = (ε/(ε + 4 \log 2))^t$, whose *infinite* sum is $ε/(4 \log 2)$;
after $T$ rounds part of the budget is unspent (of a nominal 10 at $T = 3$, 5.2). `"exact"` scales them
to add up to $ε/(4 \log 2)$; `"published"` keeps them for comparison, and the density then states the
smaller ε that was really spent.

Draws of $q_{t−1}$ to learn from are exact, too: by rejection, never by a Markov chain. They are inner
draws, seeded and never published.

**Edges.** Each round measures how well its classifier tells the records (all of them, those that it
learned from included) from fresh draws of $q_{t−1}$ (`privot.integral.tilts`). They are functions of
raw records without noise: kept in the tilt, which is secret, printed by nothing, and read by no draw.
They change neither weights nor any other draw of the fit.

References:
    Husain, Balle, Cranko, Nock, *Local/integral privacy for density estimation with approximation
    guarantees* (2018/2020), Algorithm 1 and Theorem 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from privot.core.errors import PrivotError, require_choice, require_seed
from privot.integral.density import (
    GridReference,
    Normalizer,
    TabulatedTilt,
    Tilt,
    TiltedDensity,
    make_grid,
    require_inside,
    tabulate,
)
from privot.integral.learners import Network, NetworkSettings, Trees
from privot.integral.references import Floats, Reference, SecureGenerator
from privot.integral.tilts import (
    BOUND,
    ConstantTilt,
    Edges,
    Estimator,
    FeatureTilt,
    ShiftedTilt,
    fit_log_ratio,
    tell_apart,
)
from privot.privacy.rounding import require_delta, require_epsilon

Coefficients = Literal["exact", "published"]
Classifier = Literal["mlp", "trees"]
_POOL = 2**16
_JUDGED = 2**13  # draws that γ_Q is measured on; its standard error is at most .011
_NETWORK = NetworkSettings(hidden=(25, 25, 25), steps=1000, learning_rate=0.01)


@dataclass(frozen=True)
class BoostSettings:
    """How a density is boosted.

    Arguments:
        rounds: Number of classifiers T.
        coefficients: `"exact"` spends ε; `"published"` are the paper's θ_t, which spend less.
        classifier: `"mlp"`, or `"trees"` of scikit-learn.
        network: How a network is trained.
        seed: Of weights, batches and inner draws; never of a published draw.
    """

    rounds: int = 3
    coefficients: Coefficients = "exact"
    classifier: Classifier = "mlp"
    network: NetworkSettings = _NETWORK
    seed: int = 0

    method: ClassVar[str] = "boost"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", require_seed(self.seed))
        if self.rounds < 1:
            raise PrivotError(f"rounds {self.rounds} is not positive: give at least 1")
        require_choice("coefficients", self.coefficients, get_args(Coefficients))
        require_choice("classifier", self.classifier, get_args(Classifier))

    def learn(self, records: Floats, reference: Reference, epsilon: float) -> TiltedDensity:
        """See `boost`."""
        return boost(records, reference, epsilon, self)


def coefficients(epsilon: float, rounds: int, kind: Coefficients = "exact") -> tuple[float, ...]:
    """θ_1 … θ_T.

    >>> round(sum(coefficients(10.0, 3)) * 4 * BOUND, 12)
    10.0
    >>> round(sum(coefficients(10.0, 3, "published")) * 4 * BOUND, 2)
    5.2
    """
    ratio = epsilon / (epsilon + 4 * BOUND)
    published = [ratio**t for t in range(1, rounds + 1)]
    if kind == "published":
        return tuple(published)
    return tuple(theta * (epsilon / (4 * BOUND)) / sum(published) for theta in published)


def boost(
    records: Floats,
    reference: Reference,
    epsilon: float,
    settings: BoostSettings | None = None,
) -> TiltedDensity:
    """Boost the reference towards the records; one draw of the result costs at most `epsilon`.

    Arguments:
        records: Raw records (n, dim), inside the reference's support.
        reference: Public.
        epsilon: Of one draw.
        settings: See `BoostSettings`.

    Raises:
        PrivotError: if epsilon is not positive or too large for an envelope, or a record is outside.
    """
    settings = settings or BoostSettings()
    require_epsilon(epsilon)
    limit = epsilon / 4  # exact: a power of two
    thetas = coefficients(epsilon, settings.rounds, settings.coefficients)
    if settings.coefficients == "published":
        limit = min(limit, sum(thetas) * BOUND)
    points = require_inside(reference, records)
    tilt = FeatureTilt(reference, (), ())
    current = TiltedDensity(reference, tilt, -limit, limit)
    seeds = np.random.SeedSequence(settings.seed).generate_state(settings.rounds).tolist()
    features = reference.features(points)
    for t in range(settings.rounds):
        classifier = _classify(features, current, settings, seeds[t])
        edges = (*tilt.edges, _edges(classifier, features, current, seeds[t]))
        tilt = FeatureTilt(reference, (*tilt.members, classifier), thetas[: t + 1], edges)
        current = TiltedDensity(reference, tilt, -limit, limit)
    return current


def _classify(
    positives: Floats, current: TiltedDensity, settings: BoostSettings, seed: int
) -> Network | Trees:
    """A classifier of the records' features against draws of the current density, |c| ≤ log 2."""
    features = current.reference.features
    if settings.classifier == "trees":
        return tell_apart(
            positives,
            lambda n, rng: features(current.draw_seeded(n, rng)),
            None,
            seed,
            BOUND,
        )
    pool = features(current.draw_seeded(_POOL, np.random.default_rng([seed, 1])))

    def pick(num: int, rng: np.random.Generator) -> Floats:
        return pool[rng.integers(0, len(pool), num)]

    return tell_apart(positives, pick, settings.network, seed, BOUND)


def _edges(
    classifier: Network | Trees, positives: Floats, current: TiltedDensity, seed: int
) -> Edges:
    """γ_P of the records, γ_Q of draws that the classifier has not seen."""
    drawn = current.draw_seeded(_JUDGED, np.random.default_rng([seed, 2]))
    means = classifier(positives).mean(), -classifier(current.reference.features(drawn)).mean()
    gamma_p, gamma_q = np.clip(np.divide(means, BOUND), -1.0, 1.0).tolist()
    return Edges(gamma_p, gamma_q)


# The clipped ratio: learn $p/q_0$, clip it to the mollifier, normalize. Minimax optimal for known $p$.
#
# The densities between $b\,q_0$ and $e^{w} b\,q_0$ are a mollifier of width $w$, for any public
# constant $b ∈ [e^{−w}, 1]$. For a known density $p$, the best of them, in every $f$-divergence at
# once, is
#
# $$ q = \operatorname{clip}(p/r,\; b\,q_0,\; e^{w} b\,q_0), \qquad r \text{ such that } \int q = 1 $$
#
# (Park, Asoodeh, Lee 2024). Here $p/q_0$ is learned, by any estimator whatever, and $q = q_0 e^{s}$
# with $s = \operatorname{clip}(\log p/q_0 − \log r,\; \log b,\; \log b + w)$. $b = e^{−w \cdot
# \text{floor\_share}}$, and a share $e^{−(1 − \text{floor\_share}) w}$ of all proposals is accepted,
# whatever the data is. One half treats floor and ceiling alike and accepts $e^{−ε/2}$; a lower share
# lets narrow modes rise higher above the reference, and suits data that is concentrated where the
# reference is thin. If $p ≤ c\,q_0$ is public knowledge, the minimax choice is $b = c/(e^{ε} − 1 +
# c)$.
#
# **The normalizer enters the guarantee** (`privot.integral.density`): $|\log Z| ≤ η$ gives $ε =
# w + 2η$.
#
# - `"exact"`: the reference is cut into cells (`privot.integral.density`), the tilt is a table, $Z$
#   is a finite sum, and $η = 10^{−9}$ covers the rounding of that sum and the root finding of $r$.
# - `"estimated"`: for any reference. $Z$ is the mean of $e^{s} ∈ [b, e^{w} b]$ over $m$ fresh draws
#   of $q_0$. By Hoeffding's inequality it is off by more than $t = (e^{w} b − b) \sqrt{\ln(2/γ)/2m}$
#   with probability at most γ. $r$ is found on other draws, and kept if $|\hat Z − 1| + t ≤ 1 −
#   e^{−η}$, with η public ($1 − e^{−η} = 3t$). Up to 8 attempts, each with $γ = \text{delta}/16$; if
#   none passes, the tilt is 0 and $Z = 1$. For two data sets both certificates hold but with
#   probability `delta`, and they fail independently of what is drawn: (ε, delta), **for all draws
#   together**.
# - `"none"`: nothing is promised of $Z$; the width is $ε/2$, and the promise pure. Where to cut is
#   then the free constant: $\log r$ minimizes $−E_p s + \log E_{q_0} e^{s}$.
# - `"auto"`: exact where there is a grid, else none. An estimate is never chosen silently: it costs a
#   δ.
#
# References:
#     Park, Asoodeh, Lee, *Exactly minimax-optimal locally differentially private sampling* (NeurIPS
# 2024);     Hoeffding, *Probability inequalities for sums of bounded random variables* (1963).


NormalizerKind = Literal["auto", "exact", "estimated", "none"]
_EXACT_ETA = 1e-9
_ATTEMPTS = 8
_BATCH = 2**16
_PILOT = 2**15
_LEAST_EPSILON = 1e-6
_RATIO_NETWORK = NetworkSettings()


@dataclass(frozen=True)
class ClippedRatioSettings:
    """How a ratio is learned, clipped and normalized.

    Arguments:
        estimator: `"spline"` (one continuous coordinate), `"mlp"`, `"trees"`, or `"auto"`.
        normalizer: `"exact"`, `"estimated"` (costs `delta`), `"none"` (half the width), or `"auto"`.
        floor_share: −log b as a share of the width, in (0, 1). Public: never tuned on the data.
        network: How a network is trained.
        delta: Probability that an estimated normalizer's certificate fails.
        normalizer_draws: Draws of the reference behind an estimated normalizer.
        seed: Of weights, batches, folds and inner draws; never of a published draw.
    """

    estimator: Estimator = "auto"
    normalizer: NormalizerKind = "auto"
    floor_share: float = 0.5
    network: NetworkSettings = _RATIO_NETWORK
    delta: float = 1e-9
    normalizer_draws: int = 2**20
    seed: int = 0

    method: ClassVar[str] = "clip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", require_seed(self.seed))
        require_choice("estimator", self.estimator, get_args(Estimator))
        require_choice("normalizer", self.normalizer, get_args(NormalizerKind))
        if not 0 < self.floor_share < 1:
            raise PrivotError(f"floor_share {self.floor_share} is not in (0, 1): try 0.5")
        require_delta(self.delta, positive=True)
        if self.normalizer_draws < 1:
            raise PrivotError(
                f"normalizer_draws {self.normalizer_draws} is not positive: try a million"
            )

    def learn(self, records: Floats, reference: Reference, epsilon: float) -> TiltedDensity:
        """See `clip_ratio`."""
        return clip_ratio(records, reference, epsilon, self)


def clip_ratio(
    records: Floats,
    reference: Reference,
    epsilon: float,
    settings: ClippedRatioSettings | None = None,
) -> TiltedDensity:
    """Learn log p/q₀ and clip it; one draw of the result costs at most `epsilon`.

    Arguments:
        records: Raw records (n, dim), inside the reference's support.
        reference: Public.
        epsilon: Of one draw.
        settings: See `ClippedRatioSettings`.

    Raises:
        PrivotError: if epsilon is not positive or too large for an envelope, a record is outside, or
            an exact normalizer is asked for where there is no grid.
    """
    settings = settings or ClippedRatioSettings()
    _blank(reference, epsilon, settings)  # refuses before anything is learned
    points = require_inside(reference, records)
    ratio = fit_log_ratio(points, reference, settings.estimator, settings.network, settings.seed)
    return mollify(ratio, points, reference, epsilon, settings)


def mollify(
    ratio: Tilt,
    records: Floats,
    reference: Reference,
    epsilon: float,
    settings: ClippedRatioSettings | None = None,
) -> TiltedDensity:
    """Clip and normalize a log ratio that was already learned, whatever it is.

    The records serve only to place the window of a tilt that is not normalized.

    Examples:
        >>> from privot.integral.references import StandardNormal
        >>> records = np.random.default_rng(0).normal(1.0, 1.0, (100, 1))
        >>> density = mollify(lambda x: x[:, 0], records, StandardNormal(1), epsilon=1.0)
        >>> density.epsilon <= 1.0
        True
    """
    settings = settings or ClippedRatioSettings()
    blank = _blank(reference, epsilon, settings)
    finite = ShiftedTilt(ratio, 0.0)
    if isinstance(blank.reference, GridReference):
        return _exact(finite, blank, blank.reference)
    if blank.normalizer is None:
        return _unnormalized(finite, blank, records, settings.seed)
    return _estimated(finite, blank, settings.normalizer_draws)


def _blank(reference: Reference, epsilon: float, settings: ClippedRatioSettings) -> TiltedDensity:
    """The density of tilt 0 with the limits of the result: it refuses an ε that has no envelope."""
    require_epsilon(epsilon)
    if epsilon < _LEAST_EPSILON:
        raise PrivotError(
            f"epsilon {epsilon} of one draw is below {_LEAST_EPSILON:g}: draw from the reference, "
            "which costs nothing"
        )
    zero, share = ConstantTilt(), settings.floor_share
    grid = None if settings.normalizer in ("estimated", "none") else make_grid(reference)
    if grid is not None:
        eta = min(_EXACT_ETA, 1e-3 * epsilon)
        low, high = _limits(epsilon, eta, share)
        return TiltedDensity(grid, zero, low, high, Normalizer(-eta, eta))
    if settings.normalizer == "exact":
        raise PrivotError(
            "normalizer is 'exact', and the reference has no grid of at most a million cells: "
            "choose 'estimated' (costs a delta) or 'none' (half the width)"
        )
    if settings.normalizer == "estimated":
        eta = _eta(epsilon, settings)
        low, high = _limits(epsilon, eta, share)
        return TiltedDensity(reference, zero, low, high, Normalizer(-eta, eta, settings.delta))
    return TiltedDensity(reference, zero, -epsilon / 4, epsilon / 4)


def _limits(epsilon: float, eta: float, floor_share: float) -> tuple[float, float]:
    """Limits log b and log b + w, with w + 2η at most ε whatever was rounded."""
    width = epsilon - 2 * eta
    low = -floor_share * width
    return low, low + width * (1 - 2.0**-50)


def _exact(ratio: Tilt, blank: TiltedDensity, grid: GridReference) -> TiltedDensity:
    """A table of the clipped ratio whose finite sum Z is 1."""
    values = tabulate(grid, ratio)

    def log_z(shift: float) -> float:
        tilt = np.clip(values - shift, blank.low, blank.high)
        accepted = blank.coins_of(tilt).astype(np.float64) * 2.0**-63
        return math.log(grid.mean(accepted)) + blank.high

    shift = _root(log_z, float(values.min()) - blank.high, float(values.max()) - blank.low)
    table = np.clip(values - shift, blank.low, blank.high)
    assert blank.normalizer is not None
    if not abs(log_z(shift)) <= 0.5 * blank.normalizer.high:
        table = np.zeros_like(table)  # never seen: the reference itself, Z = 1
    return replace(blank, tilt=TabulatedTilt(grid, table))


def _unnormalized(
    ratio: ShiftedTilt, blank: TiltedDensity, records: Floats, seed: int
) -> TiltedDensity:
    """Clip to half the width, cut where the likelihood of the records is largest."""
    rng = np.random.default_rng([seed, 2])
    chosen = records[rng.permutation(len(records))[:_PILOT]]
    ours = np.asarray(ratio(chosen), np.float64)
    public = np.asarray(ratio(blank.reference.sample(_PILOT, rng)), np.float64)

    def loss(shift: float) -> float:
        tilt = np.clip(ours - shift, blank.low, blank.high).mean()
        drawn = np.clip(public - shift, blank.low, blank.high)
        return float(np.log(np.exp(drawn).mean()) - tilt)

    both = np.concatenate([ours, public])
    shifts = np.linspace(both.min() - blank.high, both.max() - blank.low, 257)
    middle = int(np.argmin([loss(shift) for shift in shifts]))
    step = float(shifts[1] - shifts[0])
    found = minimize_scalar(
        loss, bounds=(shifts[middle] - step, shifts[middle] + step), method="bounded"
    )
    return replace(blank, tilt=replace(ratio, shift=float(found.x)))


def _eta(epsilon: float, settings: ClippedRatioSettings) -> float:
    """The public η with 1 − e^−η = 3t, for the widest window that it can go with."""
    low, high = _limits(epsilon, 0.0, settings.floor_share)
    tail = math.log(2 * 2 * _ATTEMPTS / settings.delta)
    span = math.exp(high) - math.exp(low)
    miss = 3 * span * math.sqrt(tail / (2 * settings.normalizer_draws))
    if not miss < 0.5 * -math.expm1(-epsilon / 2):
        raise PrivotError(
            f"normalizer_draws {settings.normalizer_draws} leave nothing of epsilon {epsilon}: "
            "give more, or choose normalizer 'none'"
        )
    return -math.log1p(-miss) * (1 + 1e-12)


def _estimated(ratio: ShiftedTilt, blank: TiltedDensity, draws: int) -> TiltedDensity:
    """Cut where Z is 1 on some draws, and certify it on others."""
    assert blank.normalizer is not None
    allowed = -math.expm1(-blank.normalizer.high)
    for _ in range(_ATTEMPTS):
        public = np.asarray(
            np.concatenate([ratio(part) for part in _draws(blank.reference, draws)]), np.float64
        )

        def log_z(shift: float, values: Floats = public) -> float:
            return float(np.log(np.exp(np.clip(values - shift, blank.low, blank.high)).mean()))

        shift = _root(log_z, float(public.min()) - blank.high, float(public.max()) - blank.low)
        candidate = replace(blank, tilt=replace(ratio, shift=shift))
        total = sum(
            float((candidate.coins(part).astype(np.float64) * 2.0**-63).sum())
            for part in _draws(blank.reference, draws)
        )
        # A third of what is allowed is t, for the window can only have become narrower since.
        if abs(total / draws * math.exp(blank.high) - 1) <= allowed * (2 / 3 - 1e-9):
            return candidate
    return blank


def _draws(reference: Reference, draws: int) -> Iterator[Floats]:
    """Draws of the law that published draws are proposed from."""
    generator = SecureGenerator()
    for start in range(0, draws, _BATCH):
        yield reference.sample(min(_BATCH, draws - start), generator)


def _root(log_z: Callable[[float], float], low: float, high: float) -> float:
    """Where log Z, which falls from above 0 to below, is 0."""
    if log_z(low) <= 0:
        return low
    if log_z(high) >= 0:
        return high
    return float(brentq(log_z, low, high, xtol=1e-13, rtol=1e-14, maxiter=200))

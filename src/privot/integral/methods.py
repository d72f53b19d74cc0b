r"""Two methods that learn a density near a public one: boosting and the clipped ratio.

**Boosting** (Husain, Balle, Cranko, Nock) begins with the public $q_0$. In round $t = 1 … T$ a
classifier $c_t$, bounded by $\log 2$ **by construction** (a bounded output layer, or clipped trees),
learns to distinguish the data from draws of $q_{t−1}$, and

$$ q_t ∝ q_{t−1} e^{θ_t c_t} , \qquad s = \sum_t θ_t c_t , \qquad |s| ≤ \log 2 \sum_t θ_t . $$

With $\sum_t θ_t ≤ ε/(4 \log 2)$ the tilt lies in $[−ε/4, ε/4]$. It is not normalized, so each draw is
ε-integrally private (`privot.integral.density`, $w = ε/2$).

- **Coefficients.** The paper uses $θ_t = (ε/(ε + 4 \log 2))^t$, whose *infinite* sum is
  $ε/(4 \log 2)$; after $T$ rounds part of the budget is unspent (for ε = 10 and $T = 3$, only 5.2 is
  spent). `"exact"` scales them to add up to $ε/(4 \log 2)$; `"published"` uses them unchanged for
  comparison, and the density then states the smaller ε that is really spent.
- **Draws** of $q_{t−1}$ for training are exact as well: by rejection, not by a Markov chain. They are
  seeded, and never published.
- **Edges.** Each round measures how well its classifier distinguishes the records, on which it was
  trained, from new draws of $q_{t−1}$ (`privot.integral.tilts`). Edges are functions of raw records
  without noise, and secret as the tilt; they do not influence draws, weights, or the rest of the fit.

**The clipped ratio** learns $p/q_0$, clips it and normalizes it. For any public constant
$b ∈ [e^{−w}, 1]$, consider the densities between $b\,q_0$ and $e^{w} b\,q_0$, whose tilts have the width
$w$. For a known density $p$, the best of them, in every $f$-divergence, is

$$ q = \operatorname{clip}(p/r,\; b\,q_0,\; e^{w} b\,q_0), \qquad r \text{ such that } \int q = 1 $$

(Park, Asoodeh, Lee 2024). Here $p/q_0$ is learned, and $q = q_0 e^{s}$ with
$s = \operatorname{clip}(\log p/q_0 − \log r,\; \log b,\; \log b + w)$, where
$b = e^{−w \cdot \text{floor\_share}}$. For all data, a share $e^{−(1 − \text{floor\_share}) w}$ of
proposals is accepted. The default ½ is symmetric in floor and ceiling; a smaller share allows narrow
modes to exceed the reference by more, and suits data that are concentrated where the reference is small.
If $p ≤ c\,q_0$ is public knowledge, the minimax choice is $b = c/(e^{w} − 1 + c)$.

The normalizer enters the guarantee (`privot.integral.density`): $|\log Z| ≤ η$ gives $ε = w + 2η$.

- `"exact"`: The reference is divided into cells, the tilt is a table, and $Z$ is a finite sum
  (`privot.integral.density`). $η ≤ 10^{−9}$ covers the rounding of that sum and the root finding of $r$.
- `"estimated"`: $\hat Z$ is the mean of $e^{s} ∈ [b, e^{w} b]$ over $m$ fresh draws of $q_0$, for any
  reference. By Hoeffding's inequality its error exceeds $t = (e^{w} b − b) \sqrt{\ln(2/γ)/2m}$ with
  probability at most γ. $r$ is found on other draws, and accepted if $|\hat Z − 1| + t ≤ 1 − e^{−η}$,
  with η public ($1 − e^{−η} = 3t$). Up to 8 attempts are made, each with $γ = \text{delta}/16$; if none
  passes, the tilt is 0 and $Z = 1$. The certificates of two data sets hold except with probability
  `delta`, independently of published draws: (ε, delta) is the guarantee of **all draws together**.
- `"none"`: $Z$ is unknown, so the width is $ε/2$, and the guarantee is pure. The constant $\log r$ is
  free, and minimizes $−E_p s + \log E_{q_0} e^{s}$.
- `"auto"`: `"exact"` if there is a grid, otherwise `"none"`; never an estimate, which costs a δ.

References:
    Husain, Balle, Cranko, Nock, *Local/integral privacy for density estimation with approximation
    guarantees* (2018/2020), Algorithm 1 and Theorem 4.
    Park, Asoodeh, Lee, *Exactly minimax-optimal locally differentially private sampling* (NeurIPS 2024).
    Hoeffding, *Probability inequalities for sums of bounded random variables* (1963).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from privot.core.errors import MOST_STEPS, PrivotError, require_choice, require_count, require_seed
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
from privot.integral.learners import Network, NetworkSettings, Trees, fit_network, fit_trees
from privot.integral.references import Floats, Reference, SecureGenerator
from privot.integral.tilts import (
    BOUND,
    ConstantTilt,
    Edges,
    Estimator,
    FeatureTilt,
    ShiftedTilt,
    fit_log_ratio,
)
from privot.privacy.rounding import require_delta, require_epsilon

Coefficients = Literal["exact", "published"]
Classifier = Literal["mlp", "trees"]
NormalizerKind = Literal["auto", "exact", "estimated", "none"]
_POOL = 2**16  # draws for training a network in a round
_EDGE_DRAWS = 2**13  # draws for measuring γ_Q; its standard error is at most .011
_BOOST_NETWORK = NetworkSettings(hidden=(25, 25, 25), steps=1000, learning_rate=0.01)
_RATIO_NETWORK = NetworkSettings()
_EXACT_ETA, _MIN_EPSILON = 1e-9, 1e-6
_ATTEMPTS, _BATCH = 8, 2**16  # of an estimated normalizer: attempts, and draws made at once
_SHIFTS = 257  # values of log r, the best of which is refined
_PILOT = 2**15  # most records, and number of draws, by which log r is chosen without normalizer


class Settings(ABC):
    """Settings of a method that learns a density, and the steps that all methods share.

    Unknown words and numbers out of range are refused.

    Arguments:
        seed: Seed of weights, batches, folds and draws during the fit; never of a published draw.
    """

    method: ClassVar[str]
    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", require_seed(self.seed))
        for name, hint in get_type_hints(type(self)).items():
            if get_origin(hint) is Literal:
                require_choice(name, getattr(self, name), get_args(hint))

    def learn(self, records: Floats, reference: Reference, epsilon: float) -> TiltedDensity:
        """Learn a density, one draw of which costs at most `epsilon`; see `boost` and `clip_ratio`."""
        require_epsilon(epsilon)
        untilted = self.untilted(reference, epsilon)  # refuses invalid settings before training
        return self.tilted(untilted, require_inside(reference, records), reference, epsilon)

    @abstractmethod
    def untilted(self, reference: Reference, epsilon: float) -> TiltedDensity:
        """Return the density of tilt 0, with the public limits of the density to be learned."""

    @abstractmethod
    def tilted(
        self, untilted: TiltedDensity, points: Floats, reference: Reference, epsilon: float
    ) -> TiltedDensity:
        """Return the untilted density with a tilt that is learned from records (n, dim)."""


@dataclass(frozen=True)
class BoostSettings(Settings):
    """Settings of a boosted density, in addition to those of `Settings`.

    Arguments:
        rounds: Number T of classifiers.
        coefficients: `"exact"` for θ_t that spend ε; `"published"` for the paper's, which spend less.
        classifier: `"mlp"`, or `"trees"` of scikit-learn.
        network: Settings of a network.
    """

    method: ClassVar[str] = "boost"

    rounds: int = 3
    coefficients: Coefficients = "exact"
    classifier: Classifier = "mlp"
    network: NetworkSettings = _BOOST_NETWORK
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("rounds", self.rounds, MOST_STEPS)

    def untilted(self, reference: Reference, epsilon: float) -> TiltedDensity:
        limit = epsilon / 4  # exact: a power of two
        if self.coefficients == "published":
            limit = min(limit, sum(coefficients(epsilon, self.rounds, "published")) * BOUND)
        return TiltedDensity(reference, FeatureTilt(reference, (), ()), -limit, limit)

    def tilted(
        self, untilted: TiltedDensity, points: Floats, reference: Reference, epsilon: float
    ) -> TiltedDensity:
        thetas = coefficients(epsilon, self.rounds, self.coefficients)
        seeds = np.random.SeedSequence(self.seed).generate_state(self.rounds).tolist()
        features = reference.features(points)
        tilt, current = FeatureTilt(reference, (), ()), untilted
        for t in range(self.rounds):
            classifier = _train_round(features, current, self, seeds[t])
            edges = _measure_edges(classifier, features, current, seeds[t])
            tilt = FeatureTilt(
                reference, (*tilt.members, classifier), thetas[: t + 1], (*tilt.edges, edges)
            )
            current = replace(untilted, tilt=tilt)
        return current


def coefficients(epsilon: float, rounds: int, kind: Coefficients = "exact") -> tuple[float, ...]:
    """Return the coefficients θ_1 … θ_T of boosting, for T = `rounds`.

    Examples:
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
    records: Floats, reference: Reference, epsilon: float, settings: BoostSettings | None = None
) -> TiltedDensity:
    """Boost the reference towards the records; one draw of the result costs at most `epsilon`.

    Arguments:
        records: Raw records (n, dim), inside the reference's support.
        reference: Public density with which boosting starts.
        epsilon: ε of one draw.
        settings: Settings other than the defaults.

    Raises:
        PrivotError: if epsilon is not positive or too large, or a record is outside the support.

    Examples:
        >>> from privot.integral.references import StandardNormal
        >>> records = np.random.default_rng(0).normal(1.0, 1.0, (100, 1))
        >>> quick = BoostSettings(rounds=1, network=NetworkSettings(hidden=(4,), steps=5))
        >>> boost(records, StandardNormal(1), epsilon=1.0, settings=quick).epsilon
        1.0
    """
    return (settings or BoostSettings()).learn(records, reference, epsilon)


def _train_round(
    positives: Floats, current: TiltedDensity, settings: BoostSettings, seed: int
) -> Network | Trees:
    """Train a classifier c, |c| ≤ log 2, on features of records against draws of the current density."""

    def draw(num: int, rng: np.random.Generator) -> Floats:
        return current.reference.features(current.draw_seeded(num, rng))

    if settings.classifier == "trees":
        return fit_trees(positives, draw, seed, BOUND)
    pool = draw(_POOL, np.random.default_rng([seed, 1]))  # training has a stream of its own

    def draw_from_pool(num: int, rng: np.random.Generator) -> Floats:
        return pool[rng.integers(0, len(pool), num)]

    return fit_network(positives, draw_from_pool, settings.network, seed, BOUND)


def _measure_edges(
    classifier: Network | Trees, positives: Floats, current: TiltedDensity, seed: int
) -> Edges:
    """Measure γ_P = E_P c / log 2 on features of records, and γ_Q = −E_Q c / log 2 on new draws."""
    drawn = current.draw_seeded(_EDGE_DRAWS, np.random.default_rng([seed, 2]))
    means = classifier(positives).mean(), -classifier(current.reference.features(drawn)).mean()
    gamma_p, gamma_q = np.clip(np.divide(means, BOUND), -1.0, 1.0).tolist()
    return Edges(gamma_p, gamma_q)


@dataclass(frozen=True)
class ClippedRatioSettings(Settings):
    """Settings of a clipped ratio, in addition to those of `Settings`.

    Arguments:
        estimator: `"spline"` (one continuous coordinate), `"mlp"`, `"trees"`, or `"auto"`: a spline if
            possible, otherwise a network.
        normalizer: `"exact"`, `"estimated"` (costs `delta`), `"none"` (half the width), or `"auto"`.
        floor_share: −log b divided by the width, in (0, 1). Public: never tuned on the data.
        network: Settings of a network.
        delta: Probability that the certificate of an estimated normalizer fails, in (0, 1).
        normalizer_draws: Number m of draws of the reference for an estimated normalizer.
    """

    method: ClassVar[str] = "clip"

    estimator: Estimator = "auto"
    normalizer: NormalizerKind = "auto"
    floor_share: float = 0.5
    network: NetworkSettings = _RATIO_NETWORK
    delta: float = 1e-9
    normalizer_draws: int = 2**20
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.floor_share < 1:
            raise PrivotError(f"floor_share {self.floor_share} is not in (0, 1): try 0.5")
        require_delta(self.delta, positive=True)
        require_count("normalizer_draws", self.normalizer_draws, MOST_STEPS, "such as a million")

    def untilted(self, reference: Reference, epsilon: float) -> TiltedDensity:
        """See `Settings`; refuse ε below 10⁻⁶, and a normalizer that reference or ε do not allow."""
        if epsilon < _MIN_EPSILON:
            raise PrivotError(
                f"epsilon {epsilon} of one draw is below {_MIN_EPSILON:g}: draw from the reference, "
                "which costs nothing"
            )
        grid = None if self.normalizer in ("estimated", "none") else make_grid(reference)
        if self.normalizer == "exact" and grid is None:
            raise PrivotError(
                "normalizer is 'exact', and the reference has no grid of at most a million cells: "
                "choose 'estimated' (costs a delta) or 'none' (half the width)"
            )
        if grid is None and self.normalizer != "estimated":
            return TiltedDensity(reference, ConstantTilt(), -epsilon / 4, epsilon / 4)
        eta, delta = min(_EXACT_ETA, 1e-3 * epsilon), 0.0
        if grid is None:
            eta, delta = _estimated_eta(epsilon, self), self.delta
        low, high = _limits(epsilon, eta, self.floor_share)
        normalizer = Normalizer(-eta, eta, delta)
        return TiltedDensity(grid or reference, ConstantTilt(), low, high, normalizer)

    def tilted(
        self, untilted: TiltedDensity, points: Floats, reference: Reference, epsilon: float
    ) -> TiltedDensity:
        ratio = fit_log_ratio(points, reference, self.estimator, self.network, self.seed)
        return self.clipped(untilted, ratio, points)

    def clipped(self, untilted: TiltedDensity, ratio: Tilt, points: Floats) -> TiltedDensity:
        """Clip a log ratio, and normalize it according to the untilted density's normalizer."""
        finite_ratio = ShiftedTilt(ratio, 0.0)
        if isinstance(untilted.reference, GridReference):
            return _normalize_exactly(finite_ratio, untilted, untilted.reference)
        if untilted.normalizer is None:
            return _clip_by_likelihood(finite_ratio, untilted, points, self.seed)
        return _normalize_by_draws(finite_ratio, untilted, self.normalizer_draws)


def clip_ratio(
    records: Floats,
    reference: Reference,
    epsilon: float,
    settings: ClippedRatioSettings | None = None,
) -> TiltedDensity:
    """Learn log p/q₀ and clip it; one draw of the result costs at most `epsilon`.

    The arguments are those of `boost`, with `epsilon` at least 10⁻⁶.

    Raises:
        PrivotError: as for `boost`, or if an exact normalizer is required and there is no grid.

    Examples:
        >>> from privot.integral.references import StandardNormal
        >>> records = np.random.default_rng(0).normal(1.0, 1.0, (100, 1))
        >>> clip_ratio(records, StandardNormal(1), epsilon=1.0).epsilon <= 1.0
        True
    """
    return (settings or ClippedRatioSettings()).learn(records, reference, epsilon)


def _limits(epsilon: float, eta: float, floor_share: float) -> tuple[float, float]:
    """Return the limits log b and log b + w, with w + 2η at most ε in spite of rounding."""
    width = epsilon - 2 * eta
    low = -floor_share * width
    return low, low + width * (1 - 2.0**-50)


def _normalize_exactly(ratio: Tilt, untilted: TiltedDensity, grid: GridReference) -> TiltedDensity:
    """Return the density with the clipped ratio as a table, shifted so that the finite sum Z is 1."""
    values = tabulate(grid, ratio)
    low, high = untilted.low, untilted.high

    def log_z(shift: float) -> float:
        tilt = np.clip(values - shift, low, high)
        return math.log(grid.mean(_acceptance(untilted.coins_of(tilt)))) + high

    shift = _root(log_z, float(values.min()) - high, float(values.max()) - low)
    table = np.clip(values - shift, low, high)
    assert untilted.normalizer is not None
    if not abs(log_z(shift)) <= 0.5 * untilted.normalizer.high:
        table = np.zeros_like(table)  # never expected; the reference itself has Z = 1
    return replace(untilted, tilt=TabulatedTilt(grid, table))


def _clip_by_likelihood(
    ratio: ShiftedTilt, untilted: TiltedDensity, records: Floats, seed: int
) -> TiltedDensity:
    """Return the density with the clipped ratio whose shift log r minimizes −E_p s + log Z."""
    rng = np.random.default_rng([seed, 2])
    chosen = records[rng.permutation(len(records))[:_PILOT]]
    at_records, at_draws = ratio(chosen), ratio(untilted.reference.sample(_PILOT, rng))
    low, high = untilted.low, untilted.high

    def loss(shift: float) -> float:
        mean_tilt = np.clip(at_records - shift, low, high).mean()
        tilts_of_draws = np.clip(at_draws - shift, low, high)
        return float(np.log(np.exp(tilts_of_draws).mean()) - mean_tilt)

    values = np.concatenate([at_records, at_draws])
    shifts = np.linspace(values.min() - high, values.max() - low, _SHIFTS)
    best = int(np.argmin([loss(shift) for shift in shifts]))
    step = float(shifts[1] - shifts[0])
    bounds = (shifts[best] - step, shifts[best] + step)
    minimum = minimize_scalar(loss, bounds=bounds, method="bounded")
    return replace(untilted, tilt=replace(ratio, shift=float(minimum.x)))


def _estimated_eta(epsilon: float, settings: ClippedRatioSettings) -> float:
    """Return the public η with 1 − e^−η = 3t, for the largest possible width."""
    low, high = _limits(epsilon, 0.0, settings.floor_share)
    tail = math.log(2 * 2 * _ATTEMPTS / settings.delta)  # ln(2/γ)
    span = math.exp(high) - math.exp(low)
    deviation = 3 * span * math.sqrt(tail / (2 * settings.normalizer_draws))
    if not deviation < 0.5 * -math.expm1(-epsilon / 2):  # η = ε/2 would leave a width of 0
        raise PrivotError(
            f"normalizer_draws {settings.normalizer_draws} are too few for epsilon {epsilon}: "
            "give more, or choose normalizer 'none'"
        )
    return -math.log1p(-deviation) * (1 + 1e-12)  # rounded up


def _normalize_by_draws(ratio: ShiftedTilt, untilted: TiltedDensity, draws: int) -> TiltedDensity:
    """Choose the shift by which Z is 1 on some draws, and certify it on others."""
    assert untilted.normalizer is not None
    low, high = untilted.low, untilted.high
    allowed = -math.expm1(-untilted.normalizer.high)
    for _ in range(_ATTEMPTS):
        ratios = np.concatenate([ratio(part) for part in _draw(untilted.reference, draws)])

        def log_z(shift: float, values: Floats = ratios) -> float:
            return float(np.log(np.exp(np.clip(values - shift, low, high)).mean()))

        shift = _root(log_z, float(ratios.min()) - high, float(ratios.max()) - low)
        candidate = replace(untilted, tilt=replace(ratio, shift=shift))
        coins = map(candidate.coins, _draw(untilted.reference, draws))
        mean_acceptance = sum(float(_acceptance(part).sum()) for part in coins) / draws
        # t ≤ allowed/3, since η was chosen for a larger width; 1e-9 covers rounding.
        if abs(mean_acceptance * math.exp(high) - 1) <= allowed * (2 / 3 - 1e-9):
            return candidate
    return untilted


def _acceptance(coins: NDArray[np.uint64]) -> Floats:
    """Return the acceptance probabilities e^(s − high) of points, from T = `coins` of 2^63."""
    return coins.astype(np.float64) * 2.0**-63


def _draw(reference: Reference, draws: int) -> Iterator[Floats]:
    """Yield draws of the reference in batches, by the same generator as proposals of published draws."""
    generator = SecureGenerator()
    for start in range(0, draws, _BATCH):
        yield reference.sample(min(_BATCH, draws - start), generator)


def _root(log_z: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of the decreasing function log Z in [low, high], or the nearer end."""
    if log_z(low) <= 0:
        return low
    if log_z(high) >= 0:
        return high
    return float(brentq(log_z, low, high, xtol=1e-13, rtol=1e-14, maxiter=200))

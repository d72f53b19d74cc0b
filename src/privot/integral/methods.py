r"""Two methods that learn a density near a public one: boosting and the clipped ratio.

Both learn a log ratio $\log p/q_0$, up to a constant, and differ in how. What follows, and the
guarantee, are the same.

**The clipped ratio** is learned at once. It is clipped and normalized: for any public constant
$b ∈ [e^{−w}, 1]$, consider the densities between $b\,q_0$ and $e^{w} b\,q_0$, whose tilts have the width
$w$. For a known density $p$, the best of them, in every $f$-divergence, is

$$ q = \operatorname{clip}(p/r,\; b\,q_0,\; e^{w} b\,q_0), \qquad r \text{ such that } \int q = 1 $$

(Park, Asoodeh, Lee 2024). Here $p/q_0$ is learned, and $q = q_0 e^{s}$ with
$s = \operatorname{clip}(\log p/q_0 − \log r,\; \log b,\; \log b + w)$, where
$b = e^{−w \cdot \text{floor\_share}}$. For all data, a share $e^{−(1 − \text{floor\_share}) w}$ of
proposals is accepted. The default ½ is symmetric in floor and ceiling; a smaller share allows narrow
modes to exceed the reference by more, and suits data that are concentrated where the reference is small.
If $p ≤ c\,q_0$ is public knowledge, the minimax choice is $b = c/(e^{w} − 1 + c)$.

**Boosting** (Husain, Balle, Cranko, Nock) begins with the public $q_0$. In round $t = 1 … T$ a
classifier $c_t$, bounded by $\log 2$ **by construction** (a bounded output layer, or clipped trees),
learns to distinguish the data from draws of $q_{t−1}$, and $q_t ∝ q_{t−1} e^{θ_t c_t}$. The ratio that
is clipped is $\sum_t θ_t c_t$.

- **Coefficients.** In the paper $θ_t = (ε/(ε + 4 \log 2))^t$, so that $\sum_t θ_t c_t$ lies in
  $[−ε/4, ε/4]$, and the unknown normalizer takes half of ε. As the normalizer is known here, the sum may
  have any limits: $|\sum_t θ_t c_t| ≤ l$ with $θ_t ∝ (l/(l + \log 2))^t$ and $l = \min(w, T \log 2)$.
  Beyond $T \log 2$ coefficients exceed 1, and rounds overshoot.
- **Draws** of $q_{t−1}$ for training are seeded, resampled from proposals of $q_0$, and never published.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from privot.core.errors import MOST_STEPS, PrivotError, require_choice, require_count, require_seed
from privot.integral.density import (
    GridReference,
    Normalizer,
    TabulatedTilt,
    Tilt,
    TiltedDensity,
    find_root,
    make_grid,
    require_inside,
    tabulate,
)
from privot.integral.learners import (
    BOUND,
    ConstantTilt,
    Estimator,
    FeatureTilt,
    Network,
    NetworkSettings,
    ShiftedTilt,
    Trees,
    fit_log_ratio,
    fit_network,
    fit_trees,
)
from privot.integral.references import Floats, Reference, SecureGenerator
from privot.privacy.rounding import require_delta, require_epsilon

Classifier = Literal["mlp", "trees"]
NormalizerKind = Literal["auto", "exact", "estimated", "none"]
_POOL, _PROPOSALS = 2**16, 4  # draws for training a network in a round; proposals for each
_BOOST_NETWORK = NetworkSettings(hidden=(25, 25, 25), steps=1000, learning_rate=0.01)
_RATIO_NETWORK = NetworkSettings()
_EXACT_ETA, _MIN_EPSILON = 1e-9, 1e-6
_ATTEMPTS, _BATCH = 8, 2**16  # of an estimated normalizer: attempts, and draws made at once
_SHIFTS = 257  # values of log r, the best of which is refined
_PILOT = 2**15  # most records, and number of draws, by which log r is chosen without normalizer


@dataclass(frozen=True)
class Settings(ABC):
    """Settings that all methods share; unknown words and numbers out of range are refused.

    Arguments:
        normalizer: `"exact"`, `"estimated"` (costs `delta`), `"none"` (half the width), or `"auto"`.
        floor_share: −log b divided by the width, in (0, 1). Public: never tuned on the data.
        delta: Probability that the certificate of an estimated normalizer fails, in (0, 1).
        normalizer_draws: Number m of draws of the reference for an estimated normalizer.
        seed: Seed of weights, batches, folds and draws during the fit; never of a published draw.
    """

    method: ClassVar[str]

    normalizer: NormalizerKind = "auto"
    floor_share: float = 0.5
    delta: float = 1e-9
    normalizer_draws: int = 2**20
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", require_seed(self.seed))
        for name, hint in get_type_hints(type(self)).items():
            if get_origin(hint) is Literal:
                require_choice(name, getattr(self, name), get_args(hint))
        if not 0 < self.floor_share < 1:
            raise PrivotError(f"floor_share {self.floor_share} is not in (0, 1): try 0.5")
        require_delta(self.delta, positive=True)
        require_count("normalizer_draws", self.normalizer_draws, MOST_STEPS, "such as a million")

    def learn(self, records: Floats, reference: Reference, epsilon: float) -> TiltedDensity:
        """Learn a density, one draw of which costs at most `epsilon`; see `boost` and `clip_ratio`."""
        require_epsilon(epsilon)
        untilted = self.untilted(reference, epsilon)  # refuses invalid settings before training
        points = require_inside(reference, records)
        ratio = self.log_ratio(points, reference, untilted.high - untilted.low)
        return self.clipped(untilted, ratio, points)

    @abstractmethod
    def log_ratio(self, points: Floats, reference: Reference, width: float) -> Tilt:
        """Learn log p/q₀, up to a constant, of records (n, dim), for a window of this width."""

    def untilted(self, reference: Reference, epsilon: float) -> TiltedDensity:
        """Return the density of tilt 0, with the public limits of the density to be learned.

        Refuse ε below 10⁻⁶, and a normalizer that reference or ε do not allow.
        """
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

    def clipped(self, untilted: TiltedDensity, ratio: Tilt, points: Floats) -> TiltedDensity:
        """Clip a log ratio, and normalize it according to the untilted density's normalizer."""
        finite_ratio = ShiftedTilt(ratio, 0.0)
        if isinstance(untilted.reference, GridReference):
            grid = untilted.reference
            return untilted.normalized(TabulatedTilt(grid, tabulate(grid, finite_ratio)))
        if untilted.normalizer is None:
            return _clip_by_likelihood(finite_ratio, untilted, points, self.seed)
        return _normalize_by_draws(finite_ratio, untilted, self.normalizer_draws)


@dataclass(frozen=True)
class BoostSettings(Settings):
    """Settings of a boosted density, in addition to those of `Settings`.

    Arguments:
        rounds: Number T of classifiers.
        classifier: `"mlp"`, or `"trees"` of scikit-learn.
        network: Settings of a network.
    """

    method: ClassVar[str] = "boost"

    rounds: int = 6
    classifier: Classifier = "mlp"
    network: NetworkSettings = _BOOST_NETWORK

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("rounds", self.rounds, MOST_STEPS)

    def log_ratio(self, points: Floats, reference: Reference, width: float) -> FeatureTilt:
        """See `Settings`; return the boosted tilt s."""
        thetas = coefficients(min(width, self.rounds * BOUND), self.rounds)
        return boost_in_rounds(points, reference, thetas, self)


def boost_in_rounds(
    points: Floats, reference: Reference, thetas: Sequence[float], settings: BoostSettings
) -> FeatureTilt:
    """Return the boosted tilt Σ_t θ_t c_t of records (n, dim)."""
    seeds = np.random.SeedSequence(settings.seed).generate_state(len(thetas)).tolist()
    features = reference.features(points)
    tilt = FeatureTilt(reference, (), ())
    for theta, seed in zip(thetas, seeds, strict=True):
        classifier = _train_round(features, tilt, settings, seed)
        tilt = FeatureTilt(reference, (*tilt.members, classifier), (*tilt.coefficients, theta))
    return tilt


def coefficients(limit: float, rounds: int) -> tuple[float, ...]:
    """Return θ_1 … θ_T of boosting, T = `rounds`, by which |s| is at most `limit`.

    Examples:
        >>> round(sum(coefficients(5.0, 3)) * BOUND, 12)
        5.0
    """
    ratio = limit / (limit + BOUND)
    powers = [ratio**t for t in range(1, rounds + 1)]
    return tuple(theta * (limit / BOUND) / sum(powers) for theta in powers)


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
        >>> boost(records, StandardNormal(1), epsilon=1.0, settings=quick).epsilon <= 1.0
        True
    """
    return (settings or BoostSettings()).learn(records, reference, epsilon)


def _train_round(
    positives: Floats, tilt: FeatureTilt, settings: BoostSettings, seed: int
) -> Network | Trees:
    """Train a classifier c, |c| ≤ log 2, on features of records against draws of q₀ e^tilt."""

    def draw(num: int, rng: np.random.Generator) -> Floats:
        proposals = tilt.reference.sample(_PROPOSALS * num, rng)
        weights = np.exp(tilt(proposals))
        chosen = rng.choice(len(proposals), num, p=weights / weights.sum())
        return tilt.reference.features(proposals[chosen])

    if settings.classifier == "trees":
        return fit_trees(positives, draw, seed, BOUND)
    pool = draw(_POOL, np.random.default_rng([seed, 1]))  # training has a stream of its own

    def draw_from_pool(num: int, rng: np.random.Generator) -> Floats:
        return pool[rng.integers(0, len(pool), num)]

    return fit_network(positives, draw_from_pool, settings.network, seed, BOUND)


@dataclass(frozen=True)
class ClippedRatioSettings(Settings):
    """Settings of a clipped ratio, in addition to those of `Settings`.

    Arguments:
        estimator: `"spline"` (one continuous coordinate), `"mlp"`, `"trees"`, or `"auto"`: a spline if
            possible, otherwise a network.
        network: Settings of a network.

    Examples:
        >>> from privot.integral.references import UniformBox
        >>> untilted = ClippedRatioSettings(floor_share=0.25).untilted(UniformBox([0], [1]), 2.0)
        >>> round(untilted.low, 6), round(untilted.high, 6)
        (-0.5, 1.5)
    """

    method: ClassVar[str] = "clip"

    estimator: Estimator = "auto"
    network: NetworkSettings = _RATIO_NETWORK

    def log_ratio(self, points: Floats, reference: Reference, width: float) -> Tilt:
        return fit_log_ratio(points, reference, self.estimator, self.network, self.seed)


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


def _estimated_eta(epsilon: float, settings: Settings) -> float:
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

        shift = find_root(log_z, float(ratios.min()) - high, float(ratios.max()) - low)
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

r"""Boosted densities inside a mollifier (MBDE), spending exactly ε.

Start at the public $q_0$. In round $t = 1 … T$ a classifier $c_t$, bounded by $\log 2$ **by
construction** (a bounded output layer, or clipped trees), learns to tell the data from draws of
$q_{t−1}$, and

$$ q_t ∝ q_{t−1} e^{θ_t c_t} , \qquad s = \sum_t θ_t c_t , \qquad |s| ≤ \log 2 \sum_t θ_t . $$

With $\sum_t θ_t ≤ ε/(4 \log 2)$ the tilt lies in $[−ε/4, ε/4]$, and not being normalized it makes
each draw ε-integrally private (`privot.integral.densities.density`, $w = ε/2$).

**Coefficients.** The paper takes $θ_t = (ε/(ε + 4 \log 2))^t$, whose *infinite* sum is $ε/(4 \log 2)$;
after $T$ rounds part of the budget is unspent (of a nominal 10 at $T = 3$, 5.2). `"exact"` scales them
to add up to $ε/(4 \log 2)$; `"published"` keeps them for comparison, and the density then states the
smaller ε that was really spent.

Draws of $q_{t−1}$ to learn from are exact, too: by rejection, never by a Markov chain. They are inner
draws, seeded and never published.

**Edges.** Each round measures how well its classifier tells the records (all of them, those that it
learned from included) from fresh draws of $q_{t−1}$ (`privot.integral.bounds`). They are functions of
raw records without noise: kept in the tilt, which is secret, printed by nothing, and read by no draw.
They change neither weights nor any other draw of the fit.

References:
    Husain, Balle, Cranko, Nock, *Local/integral privacy for density estimation with approximation
    guarantees* (2018/2020), Algorithm 1 and Theorem 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from privot.errors import PrivotError, require_choice, require_seed
from privot.integral.bounds import BOUND, Edges
from privot.integral.densities.density import TiltedDensity
from privot.integral.densities.grid import require_inside
from privot.integral.densities.references import Reference
from privot.integral.densities.secure import Floats
from privot.integral.learners.networks import Network, NetworkSettings
from privot.integral.learners.tilts import FeatureTilt, tell_apart
from privot.integral.learners.trees import Trees
from privot.privacy.rounding import require_epsilon

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

r"""Tilts: learned, constant, shifted and summed log density ratios; and lower bounds on boosting's gain.

**Tilts.** By default (`fit_log_ratio`), the log density ratio of one continuous coordinate is a
penalized spline, and any other the log odds of a network that distinguishes records from draws of the
reference; trees are for tables of mixed columns. A tilt is stored as plain values and named arrays. It
is secret, as is its folder; loading it executes no code.

**Proven gain of boosting.** A round has a classifier $|c| ≤ β = \log 2$ and a coefficient $θ > 0$, and
changes the density $q$ of a law $Q$ to $q' ∝ q\,e^{θc}$. Its **edges** measure how well $c$
distinguishes the data's law $P$ from $Q$,

$$ γ_P = E_P c / β , \qquad γ_Q = −E_Q c / β , \qquad \text{each in } [−1, 1] . $$

**One round** (`gain`). For all θ and all edges,

$$ \mathrm{KL}(P‖Q) − \mathrm{KL}(P‖Q') = θ E_P c − \log E_Q e^{θc}
   ≥ θβγ_P − \log(\cosh θβ − γ_Q \sinh θβ) , $$

since $e^{θc}$ is convex in $c$, and so at most its chord $\cosh θβ + (c/β) \sinh θβ$. Equality holds if
$c$ takes only the values ±β, so no better bound depends only on the edges.

All rounds together gain at least the sum (`total_gain`). Edges are relative to $\log 2$, not to the
largest $|c|$ of a classifier.

**Limit of the gain** (`gain_limit`, equation 10 of the paper). If $\log q/q_0 ≤ U$ everywhere, then the
gain $Δ = E_P \log q/q_0$ of every method is at most U: $U = ε/2$ for boosting, and
$(1 − \text{floor\_share})\,ε$ for the clipped ratio.

**Choice of P.** The bounds hold for any $P$ with its own edges. For the empirical distribution of the
records edges can be measured, and $Δ$ is the records' mean of $\log q_T/q_0$.

**Privacy review: who sees what.** Bounds by public numbers are public. Edges, and everything computed
from them, are functions of raw records without noise, and stay with the curator. `Edges` does not print
its values; a model stores them among its secret weights, not in `model.json`. A draw depends on values
of the tilt and on random words, but not on edges.

References:
    Husain, Balle, Cranko, Nock, *Local/integral privacy for density estimation with approximation
    guarantees* (2018/2020), Definition 1, Theorems 4 to 6. The formulas above are derived here, so
    constants may differ from the printed ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.integral.density import Arrays, Packed, TabulatedTilt, Tilt, TiltedDensity
from privot.integral.learners import (
    Network,
    NetworkSettings,
    SplineRatio,
    Trees,
    fit_network,
    fit_spline,
    fit_trees,
)
from privot.integral.references import Floats, Reference

Estimator = Literal["auto", "spline", "mlp", "trees"]
BOUND = math.log(2)  # β, the largest |c| of a round's classifier
_MAX_LOG_RATIO = 1e4  # limit of |log ratio|, which makes every value finite


@dataclass(frozen=True, repr=False)
class Edges:
    """Edges γ_P and γ_Q of a round's classifier, in [−1, 1], or refused; **not private**."""

    gamma_p: float
    gamma_q: float

    def __post_init__(self) -> None:
        for name in ("gamma_p", "gamma_q"):
            if not -1 <= getattr(self, name) <= 1:
                raise PrivotError(f"{name} is not in [-1, 1]: divide the mean of c by log 2")


def gain(theta: float, edges: Edges) -> float:
    """Return a lower bound, in nats, on the decrease of KL(P‖·) in a round with coefficient θ in (0, ∞).

    Examples:
        >>> round(gain(1.0, Edges(0.5, 0.5)) / math.log(2), 3)
        0.693
    """
    if not 0 < theta < math.inf:
        raise PrivotError(f"theta {theta} is not in (0, inf), where the bound holds: change it")
    # cosh x − γ_Q sinh x as a mean of e^x and e^−x, with x = θβ.
    x, weight = theta * BOUND, (1 - edges.gamma_q) / 2
    return x * edges.gamma_p - math.log(weight * math.exp(x) + (1 - weight) * math.exp(-x))


def total_gain(thetas: Sequence[float], edges: Sequence[Edges]) -> float:
    """Return a lower bound, in nats, on the gain of all rounds together: the sum of `gain`."""
    return sum(gain(theta, edge) for theta, edge in zip(thetas, edges, strict=True))


def gain_limit(density: TiltedDensity) -> float:
    """Return the public limit U ≥ log q/q₀ of any gain, in nats."""
    return density.high - density.log_normalizer_limits[0]


@dataclass(frozen=True, repr=False)
class FeatureTilt(Tilt):
    """Tilt Σ_t θ_t f_t(features(x)): a sum of the log odds of classifiers.

    Arguments:
        reference: Reference that computes the features.
        members: Networks or trees f_t.
        coefficients: Coefficient θ_t of each member.
        edges: Edges of each boosted classifier; they do not influence values.
    """

    kind: ClassVar[str] = "classifiers"
    reference: Reference
    members: tuple[Network | Trees, ...]
    coefficients: tuple[float, ...]
    edges: tuple[Edges, ...] = ()

    def __call__(self, x: Floats, /) -> Floats:
        features = self.reference.features(x)
        total = np.zeros(len(x))
        for coefficient, member in zip(self.coefficients, self.members, strict=True):
            total += coefficient * member(features)
        return total

    def pack(self) -> Packed:
        arrays: dict[str, NDArray[Any]] = {}
        for i, member in enumerate(self.members):
            arrays |= {f"{i}.{name}": values for name, values in member.arrays().items()}
        if self.edges:  # among the arrays, which are never shown, unlike plain values
            arrays["edges"] = np.array([(edge.gamma_p, edge.gamma_q) for edge in self.edges])
        specs = [{"kind": member.kind, "bound": member.bound} for member in self.members]
        return {"members": specs, "coefficients": list(self.coefficients)}, arrays

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        members = []
        for i, spec in enumerate(fields["members"]):
            prefix = f"{i}."
            names = [name for name in arrays if name.startswith(prefix)]
            member_arrays = {name.removeprefix(prefix): arrays[name] for name in names}
            members.append(_MEMBERS[spec["kind"]].from_arrays(member_arrays, spec["bound"]))
        edges = tuple(Edges(*pair) for pair in arrays.get("edges", np.empty((0, 2))).tolist())
        return cls(reference, tuple(members), tuple(fields["coefficients"]), edges)


@dataclass(frozen=True)
class ConstantTilt(Tilt):
    """Tilt of 0 everywhere, by which the density is the reference."""

    kind: ClassVar[str] = "constant"

    def __call__(self, x: Floats, /) -> Floats:
        return np.zeros(len(x))

    def pack(self) -> Packed:
        return {}, {}

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        return cls()


@dataclass(frozen=True, repr=False)
class ShiftedTilt(Tilt):
    """Tilt `inner`, with NaN replaced by 0 and limited to ±10⁴, minus the constant `shift`."""

    kind: ClassVar[str] = "shifted"
    inner: Tilt
    shift: float

    def __call__(self, x: Floats, /) -> Floats:
        values = np.asarray(self.inner(x), np.float64)
        return np.clip(np.nan_to_num(values, nan=0.0), -_MAX_LOG_RATIO, _MAX_LOG_RATIO) - self.shift

    def pack(self) -> Packed:
        fields, arrays = pack(self.inner)
        return {"shift": self.shift, "inner": fields}, arrays

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        return cls(unpack(fields["inner"], arrays, reference), fields["shift"])


_MEMBERS: dict[str, type[Network | Trees]] = {cls.kind: cls for cls in (Network, Trees)}
_KINDS: dict[str, type[Tilt]] = {
    cls.kind: cls for cls in (ConstantTilt, ShiftedTilt, FeatureTilt, TabulatedTilt, SplineRatio)
}


def pack(tilt: Tilt) -> Packed:
    """Return plain values, which include the kind of the tilt, and named arrays, for `unpack`."""
    fields, arrays = tilt.pack()
    return {"kind": tilt.kind, **fields}, arrays


def unpack(fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Tilt:
    """Build the tilt from the result of `pack` and the reference with which it was learned."""
    kind = fields.get("kind")
    if kind not in _KINDS:
        raise PrivotError(f"kind of tilt is {kind!r}: one of {', '.join(_KINDS)}; upgrade privot")
    return _KINDS[kind].unpack(fields, arrays, reference)


def fit_log_ratio(
    records: Floats, reference: Reference, estimator: Estimator, network: NetworkSettings, seed: int
) -> Tilt:
    """Learn the ratio log p/q₀, up to a constant, of records (n, dim) of density p (**not private**).

    `"auto"` chooses a spline, which requires one continuous coordinate, or else a network (`"mlp"`).
    """
    marginals = reference.marginals or ()
    is_line = len(marginals) == 1 and marginals[0].num_values is None
    if estimator == "spline" and not is_line:
        raise PrivotError(
            "estimator is 'spline', which needs one continuous coordinate with a marginal: "
            "choose 'mlp' or 'trees'"
        )
    if is_line and estimator in ("auto", "spline"):
        return fit_spline(records, marginals[0], seed)

    def draw(num: int, rng: np.random.Generator) -> Floats:
        return reference.features(reference.sample(num, rng))

    positives = reference.features(records)
    classifier: Network | Trees
    if estimator == "trees":
        classifier = fit_trees(positives, draw, seed)
    else:
        classifier = fit_network(positives, draw, network, seed)
    return FeatureTilt(reference, (classifier,), (1.0,))

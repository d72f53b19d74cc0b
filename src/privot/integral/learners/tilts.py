"""Tilts that are learned, made of others, and kept on disk as plain values and named arrays.

One continuous coordinate is best served by a penalized spline, anything else by a network that tells
records from draws of the reference; trees are for tables of mixed columns. Tilts made of others are
constant, shifted, or a sum of classifiers that see a reference's features. A tilt is secret, and so
is the folder it lies in; reading it runs no code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from privot.errors import PrivotError
from privot.integral.bounds import Edges
from privot.integral.densities.density import Arrays, Packed, Tilt
from privot.integral.densities.grid import TabulatedTilt
from privot.integral.densities.references import Reference
from privot.integral.densities.secure import Floats
from privot.integral.learners.networks import Negatives, Network, NetworkSettings, train_network
from privot.integral.learners.spline import SplineRatio, fit_spline
from privot.integral.learners.trees import Trees, grow_trees

Estimator = Literal["auto", "spline", "mlp", "trees"]
_FEWEST_DRAWS = 1000  # that trees are grown against
_MOST = 1e4  # a log ratio beyond has no meaning, and finite numbers can be searched


@dataclass(frozen=True, repr=False)
class FeatureTilt:
    """Σ_t θ_t f_t(features(x)): a tilt made of classifiers that see features.

    Arguments:
        reference: Whose features they see.
        members: Networks or trees.
        coefficients: θ_t, one a member.
        edges: Of boosted classifiers, one a member; of no influence on values.
    """

    kind: ClassVar[str] = "classifiers"
    reference: Reference
    members: tuple[Network | Trees, ...]
    coefficients: tuple[float, ...]
    edges: tuple[Edges, ...] = ()

    def __call__(self, x: Floats, /) -> Floats:
        """Values (n,) at points (n, dim)."""
        features = self.reference.features(x)
        total = np.zeros(len(x))
        for coefficient, member in zip(self.coefficients, self.members, strict=True):
            total += coefficient * member(features)
        return total

    def pack(self) -> Packed:
        """See `Tilt`; edges are among the arrays, which are never shown, not among plain values."""
        arrays = {
            f"{i}.{name}": values
            for i, member in enumerate(self.members)
            for name, values in member.arrays().items()
        }
        if self.edges:
            arrays["edges"] = np.array([(edge.gamma_p, edge.gamma_q) for edge in self.edges])
        specs = [{"kind": member.kind, **member.spec()} for member in self.members]
        return {"members": specs, "coefficients": list(self.coefficients)}, arrays

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        """See `Tilt`."""
        members = []
        for i, spec in enumerate(fields["members"]):
            own = {n.removeprefix(f"{i}."): v for n, v in arrays.items() if n.startswith(f"{i}.")}
            rest = {key: value for key, value in spec.items() if key != "kind"}
            members.append(_MEMBERS[spec["kind"]].from_arrays(own, **rest))
        edges = tuple(Edges(*pair) for pair in arrays.get("edges", np.empty((0, 2))).tolist())
        return cls(reference, tuple(members), tuple(fields["coefficients"]), edges)


@dataclass(frozen=True)
class ConstantTilt:
    """Tilt 0 everywhere: the reference itself."""

    kind: ClassVar[str] = "constant"

    def __call__(self, x: Floats, /) -> Floats:
        """Zeros (n,)."""
        return np.zeros(len(x))

    def pack(self) -> Packed:
        """See `Tilt`."""
        return {}, {}

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        """See `Tilt`."""
        return cls()


@dataclass(frozen=True, repr=False)
class ShiftedTilt:
    """A tilt less a constant, which decides where it is cut; what is no number counts as 0."""

    kind: ClassVar[str] = "shifted"
    inner: Tilt
    shift: float

    def __call__(self, x: Floats, /) -> Floats:
        """Values (n,) at points (n, dim)."""
        values = np.asarray(self.inner(x), np.float64)
        return np.clip(np.nan_to_num(values, nan=0.0), -_MOST, _MOST) - self.shift

    def pack(self) -> Packed:
        """See `Tilt`: those of the inner tilt, and the shift."""
        fields, arrays = pack(self.inner)
        return {"shift": self.shift, "inner": fields}, arrays

    @classmethod
    def unpack(cls, fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Self:
        """See `Tilt`."""
        return cls(unpack(fields["inner"], arrays, reference), fields["shift"])


_MEMBERS: dict[str, type[Network | Trees]] = {cls.kind: cls for cls in (Network, Trees)}
_KINDS: dict[str, type[Tilt]] = {
    cls.kind: cls for cls in (ConstantTilt, ShiftedTilt, FeatureTilt, TabulatedTilt, SplineRatio)
}


def pack(tilt: Tilt) -> Packed:
    """Plain values, with the tilt's kind, and named arrays, from which `unpack` builds it again."""
    fields, arrays = tilt.pack()
    return {"kind": tilt.kind, **fields}, arrays


def unpack(fields: dict[str, Any], arrays: Arrays, reference: Reference) -> Tilt:
    """The tilt that `pack` took apart; the reference is the one it was learned with."""
    kind = fields.get("kind")
    if kind not in _KINDS:
        raise PrivotError(f"kind of tilt is {kind!r}: one of {', '.join(_KINDS)}; upgrade privot")
    return _KINDS[kind].unpack(fields, arrays, reference)


def fit_log_ratio(
    records: Floats, reference: Reference, estimator: Estimator, network: NetworkSettings, seed: int
) -> Tilt:
    """The ratio log p/q₀ up to a constant, learned from records (n, dim) (**not private**)."""
    marginals = reference.marginals
    smooth = marginals is not None and len(marginals) == 1 and marginals[0].num_values is None
    if estimator == "spline" and not smooth:
        raise PrivotError(
            "estimator is 'spline', which needs one continuous coordinate with a marginal: "
            "choose 'mlp' or 'trees'"
        )
    if marginals is not None and smooth and estimator in ("auto", "spline"):
        return fit_spline(records, marginals[0], seed)

    def negatives(num: int, rng: np.random.Generator) -> Floats:
        return reference.features(reference.sample(num, rng))

    trees = estimator == "trees"
    learned = tell_apart(
        reference.features(records), negatives, network if not trees else None, seed
    )
    return FeatureTilt(reference, (learned,), (1.0,))


def tell_apart(
    positives: Floats,
    negatives: Negatives,
    network: NetworkSettings | None,
    seed: int,
    bound: float | None = None,
) -> Network | Trees:
    """A classifier of records' features (n, k) against those of draws, |·| ≤ bound; None: trees."""
    if network is not None:
        return train_network(positives, negatives, network, seed, bound)
    # Unequal numbers of both shift the log odds by a constant, which normalizing removes.
    drawn = negatives(max(len(positives), _FEWEST_DRAWS), np.random.default_rng([seed, 1]))
    return grow_trees(positives, drawn, seed, bound)

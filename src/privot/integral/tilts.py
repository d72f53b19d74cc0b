r"""Tilts: learned, constant, shifted and summed log density ratios; and lower bounds on boosting's gain.

**Tilts.** By default (`fit_log_ratio`), the log density ratio of one continuous coordinate is a
penalized spline, and any other the log odds of a network that distinguishes records from draws of the
reference; trees are for tables of mixed columns. A tilt is stored as plain values and named arrays. It
is secret, as is its folder; loading it executes no code.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privot.core.errors import PrivotError
from privot.integral.density import Arrays, Packed, TabulatedTilt, Tilt
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
class FeatureTilt(Tilt):
    """Tilt Σ_t θ_t f_t(features(x)): a sum of the log odds of classifiers.

    Arguments:
        reference: Reference that computes the features.
        members: Networks or trees f_t.
        coefficients: Coefficient θ_t of each member.
    """

    kind: ClassVar[str] = "classifiers"
    reference: Reference
    members: tuple[Network | Trees, ...]
    coefficients: tuple[float, ...]

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
        return cls(reference, tuple(members), tuple(fields["coefficients"]))


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

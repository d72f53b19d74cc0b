"""Tilts made of others, and tilts on disk: plain values and named arrays, read without running code.

Those made of others are constant, shifted, or a sum of classifiers that see a reference's features. A
tilt is secret, and so is the folder it lies in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from privot.errors import PrivotError
from privot.integral.densities.density import Arrays, Packed, Tilt
from privot.integral.densities.grid import TabulatedTilt
from privot.integral.densities.references import Reference
from privot.integral.densities.secure import Floats
from privot.integral.learners.networks import Network
from privot.integral.learners.spline import SplineRatio
from privot.integral.learners.trees import Trees

_MOST = 1e4  # a log ratio beyond has no meaning, and finite numbers can be searched


@dataclass(frozen=True, repr=False)
class FeatureTilt:
    """Σ_t θ_t f_t(features(x)): a tilt made of classifiers that see features.

    Arguments:
        reference: Whose features they see.
        members: Networks or trees.
        coefficients: θ_t, one a member.
    """

    kind: ClassVar[str] = "classifiers"
    reference: Reference
    members: tuple[Network | Trees, ...]
    coefficients: tuple[float, ...]

    def __call__(self, x: Floats, /) -> Floats:
        """Values (n,) at points (n, dim)."""
        features = self.reference.features(x)
        total = np.zeros(len(x))
        for coefficient, member in zip(self.coefficients, self.members, strict=True):
            total += coefficient * member(features)
        return total

    def pack(self) -> Packed:
        """See `Tilt`."""
        arrays = {
            f"{i}.{name}": values
            for i, member in enumerate(self.members)
            for name, values in member.arrays().items()
        }
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
        return cls(reference, tuple(members), tuple(fields["coefficients"]))


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
    """The tilt that `pack` took apart; the reference is the one it was learned with.

    Raises:
        PrivotError: if its kind is unknown, or the arrays do not fit the reference.
    """
    kind = fields.get("kind")
    if kind not in _KINDS:
        raise PrivotError(f"kind of tilt is {kind!r}: one of {', '.join(_KINDS)}; upgrade privot")
    return _KINDS[kind].unpack(fields, arrays, reference)

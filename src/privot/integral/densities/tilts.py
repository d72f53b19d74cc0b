"""Tilts made of others: constant, shifted, or a sum of classifiers that see a reference's features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privot.integral.densities.density import Packed, Tilt
from privot.integral.densities.references import Reference
from privot.integral.densities.secure import Array
from privot.integral.learners.networks import Network
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

    reference: Reference
    members: tuple[Network | Trees, ...]
    coefficients: tuple[float, ...]

    def __call__(self, x: Array, /) -> Array:
        """Values (n,) at points (n, dim)."""
        features = self.reference.features(x)
        total = np.zeros(len(x))
        for coefficient, member in zip(self.coefficients, self.members, strict=True):
            total += coefficient * member(features)
        return total

    def pack(self) -> Packed:
        """Plain values and arrays that `privot.integral.densities.storage` reads."""
        arrays: dict[str, Array] = {}
        for i, member in enumerate(self.members):
            arrays |= member.arrays(f"{i}.")
        specs = [member.spec() for member in self.members]
        fields = {"kind": "classifiers", "members": specs, "coefficients": list(self.coefficients)}
        return fields, arrays


@dataclass(frozen=True)
class ConstantTilt:
    """Tilt 0 everywhere: the reference itself."""

    def __call__(self, x: Array, /) -> Array:
        """Zeros (n,)."""
        return np.zeros(len(x))

    def pack(self) -> Packed:
        """Plain values; no arrays."""
        return {"kind": "constant"}, {}


@dataclass(frozen=True, repr=False)
class ShiftedTilt:
    """A tilt less a constant, which decides where it is cut; what is no number counts as 0."""

    inner: Tilt
    shift: float

    def __call__(self, x: Array, /) -> Array:
        """Values (n,) at points (n, dim)."""
        values = np.asarray(self.inner(x), np.float64)
        return np.clip(np.nan_to_num(values, nan=0.0), -_MOST, _MOST) - self.shift

    def pack(self) -> Packed:
        """Those of the inner tilt, and the shift."""
        fields, arrays = self.inner.pack()
        return {"kind": "shifted", "shift": self.shift, "inner": fields}, arrays

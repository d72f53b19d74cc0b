"""Integral privacy: densities that may not stray far from a public one, and exact draws from them.

Any two data sets, of any sizes, are told apart by a draw by a factor of at most e^ε. Covered are
**draws**, a declared number of them: never a density, its parameters or plots of it.
"""

from privot.errors import naming_extra

with naming_extra("privot.integral", "networks"):
    from privot.integral.boosting import BoostSettings, boost
    from privot.integral.bounds import Edges
    from privot.integral.clipping import ClippedRatioSettings, clip_ratio, mollify
    from privot.integral.densities.density import Normalizer, Tilt, TiltedDensity
    from privot.integral.densities.marginals import Categorical, Integers, Marginal, Normal, Uniform
    from privot.integral.densities.references import (
        CustomReference,
        ProductReference,
        Reference,
        StandardNormal,
        TruncatedNormal,
        UniformBox,
    )
    from privot.integral.densities.secure import SecureGenerator
    from privot.integral.learners.networks import NetworkSettings
    from privot.integral.learners.tilts import fit_log_ratio
    from privot.integral.model import IntegralModel, fit
    from privot.integral.records import PointSpace, RecordSpace

__all__ = [
    "BoostSettings",
    "Categorical",
    "ClippedRatioSettings",
    "CustomReference",
    "Edges",
    "Integers",
    "IntegralModel",
    "Marginal",
    "NetworkSettings",
    "Normal",
    "Normalizer",
    "PointSpace",
    "ProductReference",
    "RecordSpace",
    "Reference",
    "SecureGenerator",
    "StandardNormal",
    "Tilt",
    "TiltedDensity",
    "TruncatedNormal",
    "Uniform",
    "UniformBox",
    "boost",
    "clip_ratio",
    "fit",
    "fit_log_ratio",
    "mollify",
]

"""Integral privacy: densities that may not stray far from a public one, and exact draws from them.

Any two data sets, of any sizes, are told apart by a draw by a factor of at most e^ε. Covered are
**draws**, a declared number of them: never a density, its parameters or plots of it.
"""

from privot.core.errors import naming_extra

with naming_extra("privot.integral", "networks"):
    from privot.integral.boosting import (
        BoostSettings,
        ClippedRatioSettings,
        boost,
        clip_ratio,
        mollify,
    )
    from privot.integral.density import Normalizer, Tilt, TiltedDensity
    from privot.integral.learners import NetworkSettings
    from privot.integral.model import IntegralModel, fit
    from privot.integral.records import PointSpace, RecordSpace
    from privot.integral.references import (
        Categorical,
        CustomReference,
        Integers,
        Marginal,
        Normal,
        ProductReference,
        Reference,
        SecureGenerator,
        StandardNormal,
        TruncatedNormal,
        Uniform,
        UniformBox,
    )
    from privot.integral.tilts import Edges, fit_log_ratio

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

"""Integral privacy: exact draws from densities that stay near a public reference density.

A draw distinguishes any two data sets, of any sizes, by a factor of at most e^ε. The guarantee covers
**draws**, a declared number of them: never the density, its parameters or plots of it.

Reference densities and their marginals are in `privot.integral.references`, settings of networks in
`privot.integral.learners`.
"""

from privot.core.errors import naming_extra

with naming_extra("privot.integral", "networks"):
    from privot.integral.boosting import BoostSettings, ClippedRatioSettings, boost, clip_ratio
    from privot.integral.model import IntegralModel, fit
    from privot.integral.records import PointSpace, RecordSpace

__all__ = [
    "BoostSettings",
    "ClippedRatioSettings",
    "IntegralModel",
    "PointSpace",
    "RecordSpace",
    "boost",
    "clip_ratio",
    "fit",
]

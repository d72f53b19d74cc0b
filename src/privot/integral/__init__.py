"""Integral privacy: exact draws from densities that stay near a public reference density.

For any two data sets, of any sizes, the densities of a draw differ by a factor of at most e^ε, and of n
draws together by e^(nε). The guarantee covers a declared number of **draws**; it never covers the
density, its parameters or plots.

Reference densities and their marginals are in `privot.integral.references`, settings of networks in
`privot.integral.learners`.
"""

from privot.core.errors import naming_extra

with naming_extra("privot.integral", "learn"):
    from privot.integral.methods import BoostSettings, ClippedRatioSettings, boost, clip_ratio
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

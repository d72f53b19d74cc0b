"""Guarantees, and the arithmetic behind them.

What a device never needs is left to its own import, for it loads SciPy: amplification by shuffling
(`privot.privacy.shuffling`), audits (`privot.audit.statistics`) and `privot.privacy.slice_accounting`.
"""

from privot.core.errors import naming_extra

with naming_extra("privot.privacy", "release"):
    from privot.privacy.composition import compose, guarantee_from_dict, weakest
    from privot.privacy.curves import (
        calibrate_gaussian,
        calibrate_gaussian_zhao,
        calibrate_laplace,
        calibrate_randomized_response,
        gaussian_delta,
        gaussian_epsilon,
        laplace_epsilon,
        randomized_response_epsilon,
    )
    from privot.privacy.guarantees import (
        ApproximateDP,
        GeoIndistinguishability,
        Guarantee,
        IntegralPrivacy,
        Neighboring,
        PureDP,
        RenyiDP,
        ZeroConcentratedDP,
    )

__all__ = [
    "ApproximateDP",
    "GeoIndistinguishability",
    "Guarantee",
    "IntegralPrivacy",
    "Neighboring",
    "PureDP",
    "RenyiDP",
    "ZeroConcentratedDP",
    "calibrate_gaussian",
    "calibrate_gaussian_zhao",
    "calibrate_laplace",
    "calibrate_randomized_response",
    "compose",
    "gaussian_delta",
    "gaussian_epsilon",
    "guarantee_from_dict",
    "laplace_epsilon",
    "randomized_response_epsilon",
    "weakest",
]

"""What is promised: guarantees and the arithmetic behind them.

What a device never needs is left to its own import, for it loads SciPy: amplification by shuffling
(`privot.privacy.curves.shuffling`), audits (`privot.privacy.lower_bound`) and `privot.privacy.slicing`.
"""

from privot.errors import naming_extra

with naming_extra("privot.privacy", "release"):
    from privot.privacy.curves.gaussian import (
        calibrate_gaussian,
        calibrate_gaussian_zhao,
        gaussian_delta,
        gaussian_epsilon,
    )
    from privot.privacy.curves.pure import (
        calibrate_laplace,
        calibrate_randomized_response,
        laplace_epsilon,
        randomized_response_epsilon,
    )
    from privot.privacy.guarantees.composition import compose, guarantee_from_dict, weakest
    from privot.privacy.guarantees.graded import (
        GeoIndistinguishability,
        RenyiDP,
        ZeroConcentratedDP,
    )
    from privot.privacy.guarantees.guarantee import (
        ApproximateDP,
        Guarantee,
        IntegralPrivacy,
        Neighboring,
        PureDP,
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

"""Privacy guarantees, and the noise that they need.

Modules that load SciPy are imported by themselves: amplification by shuffling
(`privot.privacy.shuffling`) and the accounting of slices (`privot.privacy.slice_accounting`).
"""

from privot.core.errors import naming_extra

with naming_extra("privot.privacy", "release"):
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
    from privot.privacy.distributed import DistributedDP
    from privot.privacy.guarantees import (
        ApproximateDP,
        GeoIndistinguishability,
        Guarantee,
        IntegralPrivacy,
        Neighboring,
        PureDP,
        RenyiDP,
        ZeroConcentratedDP,
        compose,
        guarantee_from_dict,
        weakest,
    )

__all__ = [
    "ApproximateDP",
    "DistributedDP",
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

"""Privacy guarantees, and calibration of the noise that they need.

Two modules that load SciPy are imported separately: `privot.privacy.shuffling` (amplification by
shuffling) and `privot.privacy.slice_accounting` (accounting of slices).
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
    "ApproximateDP", "DistributedDP", "GeoIndistinguishability", "Guarantee", "IntegralPrivacy",
    "Neighboring", "PureDP", "RenyiDP", "ZeroConcentratedDP", "calibrate_gaussian",
    "calibrate_gaussian_zhao", "calibrate_laplace", "calibrate_randomized_response", "compose",
    "gaussian_delta", "gaussian_epsilon", "guarantee_from_dict", "laplace_epsilon",
    "randomized_response_epsilon", "weakest",
]  # fmt: skip

"""What is promised: guarantees, the arithmetic behind them, shuffling, and an audit."""

from privot.privacy.composition import compose, guarantee_from_dict
from privot.privacy.gaussian import (
    calibrate_gaussian,
    calibrate_gaussian_zhao,
    gaussian_delta,
    gaussian_epsilon,
)
from privot.privacy.guarantee import (
    ApproximateDP,
    Guarantee,
    IntegralPrivacy,
    Neighboring,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
)
from privot.privacy.laplace import calibrate_laplace, laplace_epsilon
from privot.privacy.randomized_response import (
    calibrate_randomized_response,
    randomized_response_epsilon,
)
from privot.privacy.shuffling import ShuffleBound, shuffled_epsilon

__all__ = [
    "ApproximateDP",
    "Guarantee",
    "IntegralPrivacy",
    "Neighboring",
    "PureDP",
    "RenyiDP",
    "ShuffleBound",
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
    "shuffled_epsilon",
]

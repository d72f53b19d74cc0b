"""What is promised: guarantees and the arithmetic behind them.

What a device never needs is left to its own import, for it loads SciPy:
`privot.privacy.curves.shuffling` (amplification by shuffling) and `privot.privacy.audits.lower_bound`.
What is in `privot.privacy.slicing` loads on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

from privot.privacy.curves.gaussian import (
    calibrate_gaussian,
    calibrate_gaussian_zhao,
    gaussian_delta,
    gaussian_epsilon,
)
from privot.privacy.curves.laplace import calibrate_laplace, laplace_epsilon
from privot.privacy.curves.randomized_response import (
    calibrate_randomized_response,
    randomized_response_epsilon,
)
from privot.privacy.guarantees.composition import compose, guarantee_from_dict
from privot.privacy.guarantees.geo import GeoIndistinguishability
from privot.privacy.guarantees.guarantee import (
    ApproximateDP,
    Guarantee,
    IntegralPrivacy,
    Neighboring,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
)

if TYPE_CHECKING:
    from privot.privacy.slicing import SlicedAccounting

__all__ = [
    "ApproximateDP",
    "GeoIndistinguishability",
    "Guarantee",
    "IntegralPrivacy",
    "Neighboring",
    "PureDP",
    "RenyiDP",
    "SlicedAccounting",
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
]


def __getattr__(name: str) -> Any:
    if name != "SlicedAccounting":
        raise AttributeError(f"module 'privot.privacy' has no attribute {name!r}")
    return importlib.import_module("privot.privacy.slicing").SlicedAccounting

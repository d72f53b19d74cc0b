"""Local randomizers: exact sampling of reports, and the exact likelihood of a report."""

from privot.core.errors import naming_extra

with naming_extra("privot.mechanisms"):
    from privot.mechanisms.choice import Choice, choose_mechanism, compare_mechanisms
    from privot.mechanisms.frequency_oracles import (
        FrequencyOracle,
        RandomizedResponse,
        SubsetSelection,
    )
    from privot.mechanisms.gaussian import Gaussian
    from privot.mechanisms.laplace import Laplace
    from privot.mechanisms.mechanism import Mechanism
    from privot.mechanisms.window import Window

__all__ = [
    "Choice", "FrequencyOracle", "Gaussian", "Laplace", "Mechanism", "RandomizedResponse",
    "SubsetSelection", "Window", "choose_mechanism", "compare_mechanisms",
]  # fmt: skip

"""How noise is drawn, exactly, and the likelihood of what it makes of a record."""

from privot.core.errors import naming_extra

with naming_extra("privot.mechanisms"):
    from privot.mechanisms.additive_noise import NullableNoise
    from privot.mechanisms.choice import Choice, choose_mechanism, compare_mechanisms
    from privot.mechanisms.frequency_oracles import (
        FrequencyOracle,
        RandomizedResponse,
        SubsetSelection,
    )
    from privot.mechanisms.gaussian import Gaussian
    from privot.mechanisms.laplace import Laplace
    from privot.mechanisms.mechanism import (
        Mechanism,
        mechanism_from_dict,
        mechanism_kind,
        mechanism_kinds,
    )
    from privot.mechanisms.samplers.discrete_laplace import sample_discrete_laplace
    from privot.mechanisms.samplers.entropy import random_bits, random_words
    from privot.mechanisms.samplers.rounding import sample_rounded_gaussian
    from privot.mechanisms.window import Window

__all__ = [
    "Choice",
    "FrequencyOracle",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "NullableNoise",
    "RandomizedResponse",
    "SubsetSelection",
    "Window",
    "choose_mechanism",
    "compare_mechanisms",
    "mechanism_from_dict",
    "mechanism_kind",
    "mechanism_kinds",
    "random_bits",
    "random_words",
    "sample_discrete_laplace",
    "sample_rounded_gaussian",
]

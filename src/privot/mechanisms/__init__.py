"""How noise is drawn, exactly, and the likelihood of what it makes of a record."""

from privot.errors import naming_extra

with naming_extra("privot.mechanisms"):
    from privot.mechanisms.additive.gaussian import Gaussian
    from privot.mechanisms.additive.laplace import Laplace
    from privot.mechanisms.additive.nullable_noise import NullableNoise
    from privot.mechanisms.additive.planar_laplace import PlanarLaplace
    from privot.mechanisms.choice import Choice, choose_mechanism, compare_mechanisms
    from privot.mechanisms.mechanism import (
        Mechanism,
        mechanism_from_dict,
        mechanism_kind,
        mechanism_kinds,
    )
    from privot.mechanisms.oracles.frequency_oracle import FrequencyOracle
    from privot.mechanisms.oracles.randomized_response import RandomizedResponse
    from privot.mechanisms.oracles.subset_selection import SubsetSelection
    from privot.mechanisms.oracles.unary_encoding import UnaryEncoding
    from privot.mechanisms.samplers.discrete_laplace import (
        sample_discrete_laplace,
        sample_planar_laplace,
    )
    from privot.mechanisms.samplers.entropy import random_bits, random_words
    from privot.mechanisms.samplers.rounded_gaussian import sample_rounded_gaussian
    from privot.mechanisms.windows.window import Window

__all__ = [
    "Choice",
    "FrequencyOracle",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "NullableNoise",
    "PlanarLaplace",
    "RandomizedResponse",
    "SubsetSelection",
    "UnaryEncoding",
    "Window",
    "choose_mechanism",
    "compare_mechanisms",
    "mechanism_from_dict",
    "mechanism_kind",
    "mechanism_kinds",
    "random_bits",
    "random_words",
    "sample_discrete_laplace",
    "sample_planar_laplace",
    "sample_rounded_gaussian",
]

"""How noise is drawn, exactly, and the likelihood of what it makes of a record."""

from privot.mechanisms.choice import Choice, choose_mechanism
from privot.mechanisms.discrete_laplace import sample_discrete_laplace
from privot.mechanisms.discrete_planar_laplace import sample_planar_laplace
from privot.mechanisms.entropy import random_bits, random_words
from privot.mechanisms.frequency_oracle import FrequencyOracle
from privot.mechanisms.gaussian import Gaussian
from privot.mechanisms.laplace import Laplace
from privot.mechanisms.mechanism import Mechanism, mechanism_from_dict
from privot.mechanisms.nullable_noise import NullableNoise
from privot.mechanisms.planar_laplace import PlanarLaplace
from privot.mechanisms.randomized_response import RandomizedResponse
from privot.mechanisms.rounded_gaussian import sample_rounded_gaussian
from privot.mechanisms.square_wave import SquareWave
from privot.mechanisms.subset_selection import SubsetSelection
from privot.mechanisms.unary_encoding import UnaryEncoding

__all__ = [
    "Choice",
    "FrequencyOracle",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "NullableNoise",
    "PlanarLaplace",
    "RandomizedResponse",
    "SquareWave",
    "SubsetSelection",
    "UnaryEncoding",
    "choose_mechanism",
    "mechanism_from_dict",
    "random_bits",
    "random_words",
    "sample_discrete_laplace",
    "sample_planar_laplace",
    "sample_rounded_gaussian",
]

"""Generators: networks from latents to features. Know nothing of privacy."""

from privot.generators.bounded import Bounded
from privot.generators.conditional import Conditional
from privot.generators.dcgan import DCGAN
from privot.generators.mlp import MLP

__all__ = ["DCGAN", "MLP", "Bounded", "Conditional"]

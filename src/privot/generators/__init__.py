"""Generators: networks from latents to features. Know nothing of privacy."""

from privot.generators.conditional import Conditional
from privot.generators.mlp import MLP

__all__ = ["MLP", "Conditional"]

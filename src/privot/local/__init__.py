"""Learning from locally privatized records: nobody is trusted with a raw one."""

from privot.local.fitting import fit
from privot.local.likelihood.cost import LikelihoodCost
from privot.local.model import LocalModel
from privot.local.settings import FitSettings
from privot.local.synthesizer import Synthesizer

__all__ = ["FitSettings", "LikelihoodCost", "LocalModel", "Synthesizer", "fit"]

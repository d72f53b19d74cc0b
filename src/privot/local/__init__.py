"""Learning from locally privatized records: nobody is trusted with a raw one."""

from privot.local.fitting import Synthesizer, fit
from privot.local.likelihood.cost import LikelihoodCost
from privot.local.model import LocalModel
from privot.local.refinement import refine
from privot.local.settings import FitSettings

__all__ = ["FitSettings", "LikelihoodCost", "LocalModel", "Synthesizer", "fit", "refine"]

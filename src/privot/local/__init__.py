"""Learning from locally privatized records: nobody is trusted with a raw one."""

from privot.errors import naming_extra

with naming_extra("privot.local", "learn"):
    from privot.local.fitting import Synthesizer, fit
    from privot.local.model import LocalModel
    from privot.local.refinement import pair_weights, refine
    from privot.local.settings import FitSettings
    from privot.local.waves.wave_fit import fit_waves
    from privot.local.waves.wave_model import WaveModel

__all__ = [
    "FitSettings",
    "LocalModel",
    "Synthesizer",
    "WaveModel",
    "fit",
    "fit_waves",
    "pair_weights",
    "refine",
]

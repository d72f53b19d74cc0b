"""Learning from locally privatized records: nobody is trusted with a raw one."""

from privot.core.errors import naming_extra

with naming_extra("privot.local", "learn"):
    from privot.local.fitting import Synthesizer, fit
    from privot.local.model import LocalModel, pair_weights, refine
    from privot.local.settings import FitSettings
    from privot.local.waves.wave_model import WaveModel, fit_waves

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

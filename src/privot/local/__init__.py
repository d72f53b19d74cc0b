"""Learning from locally privatized records: nobody is trusted with a raw one."""

from typing import TYPE_CHECKING

from privot.core.errors import lazy_names

if TYPE_CHECKING:
    from privot.local.fitting import Synthesizer, fit
    from privot.local.model import LocalModel, pair_weights, refine
    from privot.local.settings import FitSettings
    from privot.local.waves.wave_model import WaveModel, fit_waves

# Imported when they are used: `privot fit --help` reads the settings alone.
_PLACES = {
    "FitSettings": "privot.local.settings",
    "LocalModel": "privot.local.model",
    "Synthesizer": "privot.local.fitting",
    "WaveModel": "privot.local.waves.wave_model",
    "fit": "privot.local.fitting",
    "fit_waves": "privot.local.waves.wave_model",
    "pair_weights": "privot.local.model",
    "refine": "privot.local.model",
}
__getattr__ = lazy_names(__name__, _PLACES)
# Kinds of models, and the class of each.
MODEL_CLASSES = {"local": "LocalModel", "local.waves": "WaveModel"}

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

"""Learning from locally privatized reports, without a trusted curator of raw records."""

from typing import TYPE_CHECKING

from privot.core.errors import lazy_names

if TYPE_CHECKING:
    from privot.local.fitting import Synthesizer, fit
    from privot.local.model import LocalModel, pair_weights, refine
    from privot.local.related_tables import RelatedTable
    from privot.local.settings import FitSettings
    from privot.local.waves.wave_model import WaveModel, fit_waves

# Imported on first use, because `privot fit --help` needs only the settings.
_MODULES = {
    "fitting": ("Synthesizer", "fit"),
    "model": ("LocalModel", "pair_weights", "refine"),
    "related_tables": ("RelatedTable",),
    "settings": ("FitSettings",),
    "waves.wave_model": ("WaveModel", "fit_waves"),
}
__getattr__ = lazy_names(__name__, _MODULES)
# Names of the models' classes, by kind.
MODEL_CLASSES = {"local": "LocalModel", "local.waves": "WaveModel"}

__all__ = [
    "FitSettings",
    "LocalModel",
    "RelatedTable",
    "Synthesizer",
    "WaveModel",
    "fit",
    "fit_waves",
    "pair_weights",
    "refine",
]

"""Models of records that a trusted curator holds, learned from noisy sums or noisy slices.

Only `SumMechanism` (`privot.central.sums`) and `SlicingMechanism` (`privot.central.slices`) read private
data. Everything learned from their releases has the guarantee of these releases (post-processing).
"""

from typing import TYPE_CHECKING

from privot.core.errors import lazy_names, naming_extra

with naming_extra("privot.central", "learn"):
    from privot.central.fitting import CentralModel, SumSettings, fit

if TYPE_CHECKING:
    from privot.central.classifiers.adaptation import adapt
    from privot.central.classifiers.adapted import AdaptedClassifier as AdaptedClassifier
    from privot.central.classifiers.linear import LinearClassifier as LinearClassifier
    from privot.central.classifiers.linear import fit_classifier
    from privot.central.slice_fit import SliceSettings

# Imported on first use: tables by noisy sums need no PyTorch.
_MODULES = {
    "classifiers.adapted": ("AdaptedClassifier",),
    "classifiers.adaptation": ("adapt",),
    "classifiers.linear": ("LinearClassifier", "fit_classifier"),
    "slice_fit": ("SliceSettings",),
}
__getattr__ = lazy_names(__name__, _MODULES)
# Kinds of models that another module defines.
MODEL_CLASSES = {"central.classifier": "AdaptedClassifier", "central.linear": "LinearClassifier"}

__all__ = ["CentralModel", "SliceSettings", "SumSettings", "adapt", "fit", "fit_classifier"]

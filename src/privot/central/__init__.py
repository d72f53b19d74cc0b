"""Learning through noisy sums and slices: a curator is trusted with records, releases are public.

`SumMechanism` and `SlicingMechanism` alone touch private data. What is learned from their releases keeps
the guarantee that a ledger has counted.
"""

from typing import TYPE_CHECKING

from privot.core.errors import lazy_names, naming_extra

with naming_extra("privot.central", "learn"):
    from privot.central.fitting import CentralModel, SumSettings, fit
    from privot.privacy.ledger import BudgetExhausted, Ledger

if TYPE_CHECKING:
    from privot.central.adaptation.classifier import AdaptationSettings, AdaptedClassifier
    from privot.central.adaptation.rounds import adapt
    from privot.central.records import records_of
    from privot.central.slice_fit import SliceSettings
    from privot.central.slices import SlicePlan, Slices, SlicingMechanism

# Imported when they are used: tables by noisy sums need no PyTorch.
_PLACES = {
    "AdaptationSettings": "privot.central.adaptation.classifier",
    "AdaptedClassifier": "privot.central.adaptation.classifier",
    "SlicePlan": "privot.central.slices",
    "SliceSettings": "privot.central.slice_fit",
    "Slices": "privot.central.slices",
    "SlicingMechanism": "privot.central.slices",
    "adapt": "privot.central.adaptation.rounds",
    "records_of": "privot.central.records",
}
__getattr__ = lazy_names(__name__, _PLACES)
# Kinds of models that another module knows.
MODEL_CLASSES = {"central.classifier": "AdaptedClassifier"}

__all__ = [
    "AdaptationSettings",
    "AdaptedClassifier",
    "BudgetExhausted",
    "CentralModel",
    "Ledger",
    "SlicePlan",
    "SliceSettings",
    "Slices",
    "SlicingMechanism",
    "SumSettings",
    "adapt",
    "fit",
    "records_of",
]

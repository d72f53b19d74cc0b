"""Learning through noisy sums and slices: a curator is trusted with records, releases are public.

`SumMechanism` and `SlicingMechanism` alone touch private data. What is learned from their releases keeps
the guarantee that a ledger has counted.
"""

from typing import TYPE_CHECKING

from privot.errors import lazy_names, naming_extra

with naming_extra("privot.sliced", "learn"):
    from privot.disk import BudgetExhausted, Ledger
    from privot.sliced.fitting import fit
    from privot.sliced.mixtures.settings import MixtureSettings
    from privot.sliced.model import SlicedModel

if TYPE_CHECKING:
    from privot.sliced.adaptation.classifier import AdaptationSettings, AdaptedClassifier
    from privot.sliced.adaptation.rounds import adapt
    from privot.sliced.record_maps import records_of
    from privot.sliced.releases.mechanism import Slices, SlicingMechanism
    from privot.sliced.releases.plan import SlicePlan
    from privot.sliced.settings import SlicedSettings

# Imported when they are used: tables by noisy sums need no PyTorch.
_PLACES = {
    "AdaptationSettings": "privot.sliced.adaptation.classifier",
    "AdaptedClassifier": "privot.sliced.adaptation.classifier",
    "SlicePlan": "privot.sliced.releases.plan",
    "SlicedSettings": "privot.sliced.settings",
    "Slices": "privot.sliced.releases.mechanism",
    "SlicingMechanism": "privot.sliced.releases.mechanism",
    "adapt": "privot.sliced.adaptation.rounds",
    "records_of": "privot.sliced.record_maps",
}
__getattr__ = lazy_names(__name__, _PLACES)
# Kinds of models that another module knows.
MODEL_CLASSES = {"sliced.classifier": "AdaptedClassifier"}

__all__ = [
    "AdaptationSettings",
    "AdaptedClassifier",
    "BudgetExhausted",
    "Ledger",
    "MixtureSettings",
    "SlicePlan",
    "SlicedModel",
    "SlicedSettings",
    "Slices",
    "SlicingMechanism",
    "adapt",
    "fit",
    "records_of",
]

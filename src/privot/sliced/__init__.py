"""Learning through noisy sums and slices: a curator is trusted with records, releases are public.

`SumMechanism` and `SlicingMechanism` alone touch private data. What is learned from their releases keeps
the guarantee that a ledger has counted.
"""

from privot.disk import BudgetExhausted, Ledger
from privot.sliced.adaptation.classifier import AdaptationSettings, AdaptedClassifier
from privot.sliced.adaptation.rounds import adapt
from privot.sliced.fitting import fit
from privot.sliced.mixtures.settings import MixtureSettings
from privot.sliced.model import SlicedModel, records_of
from privot.sliced.releases.mechanism import Slices, SlicingMechanism
from privot.sliced.releases.plan import SlicePlan
from privot.sliced.settings import SlicedSettings

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

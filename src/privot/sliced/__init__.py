"""Private learning through noisy slices: a curator is trusted with records, releases are public.

`SlicingMechanism` alone touches private data. What is learned from its releases keeps the guarantee
that its ledger has counted.
"""

from privot.disk import BudgetExhausted, Ledger
from privot.sliced.adaptation.classifier import AdaptationSettings, AdaptedClassifier
from privot.sliced.adaptation.rounds import adapt
from privot.sliced.fitting import fit_sliced
from privot.sliced.images import LabeledImages
from privot.sliced.model import SlicedModel
from privot.sliced.releases.mechanism import Slices, SlicingMechanism
from privot.sliced.releases.plan import Plan
from privot.sliced.releases.settings import SlicedSettings
from privot.sliced.tables import TableRecords

__all__ = [
    "AdaptationSettings",
    "AdaptedClassifier",
    "BudgetExhausted",
    "LabeledImages",
    "Ledger",
    "Plan",
    "SlicedModel",
    "SlicedSettings",
    "Slices",
    "SlicingMechanism",
    "TableRecords",
    "adapt",
    "fit_sliced",
]

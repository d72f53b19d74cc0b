"""Private learning through noisy slices: a curator is trusted with records, releases are public.

`SlicingMechanism` alone touches private data. What is learned from its releases keeps the guarantee
that its ledger has counted.
"""

from privot.disk import BudgetExhausted, Ledger
from privot.sliced.adaptation import adapt
from privot.sliced.classifier import AdaptationSettings, AdaptedClassifier
from privot.sliced.fitting import fit_sliced
from privot.sliced.images import LabeledImages
from privot.sliced.mechanism import Slices, SlicingMechanism
from privot.sliced.model import SlicedModel
from privot.sliced.plan import Plan
from privot.sliced.settings import SlicedSettings
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

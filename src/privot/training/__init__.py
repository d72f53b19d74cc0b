"""The training loop, its state on disk, and how it is interrupted. Knows no release, no privacy."""

from privot.training.loop import Progress, TrainingSettings, train
from privot.training.stopping import Interrupted, Patience, deferred_interruption

__all__ = [
    "Interrupted",
    "Patience",
    "Progress",
    "TrainingSettings",
    "deferred_interruption",
    "train",
]

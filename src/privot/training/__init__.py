"""The training loop, its state on disk, and how it is interrupted. Knows no release, no privacy."""

from privot.training.loop import (
    Interrupted,
    Progress,
    TrainingSettings,
    deferred_interruption,
    train,
)

__all__ = ["Interrupted", "Progress", "TrainingSettings", "deferred_interruption", "train"]
